from Cython.Build import cythonize
from setuptools import setup

setup(ext_modules=cythonize("bp_sampler/_sampler.pyx"))
