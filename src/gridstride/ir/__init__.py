"""The intermediate representation between PTX and LLVM."""
