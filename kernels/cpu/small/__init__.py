"""Kernels for small arrays: choices that depend on layouts alone are made once, not at each
call.
"""
