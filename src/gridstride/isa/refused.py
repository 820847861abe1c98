"""Instructions that PTX has and that are not run: the error names what they belong to and where PTX describes it.

A name is the opcode's first words. One entry is enough for an instruction with all its forms.
"""

from __future__ import annotations

from gridstride.isa.registry import refuse

_MATRIX = "matrix instructions"
_TEXTURES = "textures"
_SURFACES = "surfaces"
_ASYNCHRONOUS = "asynchronous copies"

for _names, _feature, _section in (
    ("wmma", _MATRIX, "9.7.14.4"),
    ("mma ldmatrix stmatrix movmatrix", _MATRIX, "9.7.14.5"),
    ("wgmma", _MATRIX, "9.7.15"),
    ("tcgen05", _MATRIX, "9.7.16"),
    ("tex", _TEXTURES, "9.7.10.3"),
    ("tld4", _TEXTURES, "9.7.10.4"),
    ("txq", _TEXTURES, "9.7.10.5"),
    ("istypep", _TEXTURES, "9.7.10.6"),
    ("suld", _SURFACES, "9.7.11.1"),
    ("sust", _SURFACES, "9.7.11.2"),
    ("sured", _SURFACES, "9.7.11.3"),
    ("suq", _SURFACES, "9.7.11.4"),
    ("cp.async cp.reduce", _ASYNCHRONOUS, "9.7.9.25"),
    ("tensormap cp.async.bulk.tensor", "tensor maps", "9.7.9.27"),
    ("st.async", _ASYNCHRONOUS, "9.7.9.12"),
    ("st.bulk", _ASYNCHRONOUS, "9.7.9.13"),
    ("red.async", _ASYNCHRONOUS, "9.7.13.7"),
    ("multimem", "multimem addresses", "9.7.9.14"),
    ("clusterlaunchcontrol", "clusters that take over others' work", "9.7.13.17"),
):
    for _name in _names.split():
        refuse(_name, _feature, _section)
