"""Importing this module fills the registry: one line for each file of an instruction family."""
# ruff: noqa: F401

import gridstride.isa.addresses
import gridstride.isa.approximate
import gridstride.isa.approximate64
import gridstride.isa.bits
import gridstride.isa.carry
import gridstride.isa.control
import gridstride.isa.convert
import gridstride.isa.convert_float
import gridstride.isa.definedness
import gridstride.isa.divide
import gridstride.isa.float32
import gridstride.isa.float64
import gridstride.isa.floatcompare
import gridstride.isa.half
import gridstride.isa.half_approx
import gridstride.isa.half_compare
import gridstride.isa.integer
import gridstride.isa.logic
import gridstride.isa.mbarrier
import gridstride.isa.memory
import gridstride.isa.mixed
import gridstride.isa.multiply
import gridstride.isa.refused
import gridstride.isa.select
import gridstride.isa.stack
import gridstride.isa.video
import gridstride.isa.warp
