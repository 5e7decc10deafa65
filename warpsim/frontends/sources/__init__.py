"""From a source to machine code, with compilers that the user has installed; no GPU is needed.

Read them in this order:

    cuda_source      a CUDA source to machine code
    cuda_headers     headers where NVRTC does not find them
    host_code        what a source holds for the host, which is left out
    instances        templates of kernels that the host code names
    nvrtc            the vendor's compiler
    triton_functions a Triton function to machine code
"""
