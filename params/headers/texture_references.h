// Texture references, which CUDA has had no longer since version 12: texture objects whose handles are the addresses of the references.
#pragma once
#include <cuda_runtime.h>
#include <texture_types.h>

#define texture texture_reference

template <class T, int dimensions = cudaTextureType1D, cudaTextureReadMode mode = cudaReadModeElementType>
struct texture_reference {};

template <class T> struct texture_float { typedef float type; };
#define WARPSIM_TEXTURE_FLOAT(kind) \
    template <> struct texture_float<kind##1> { typedef float1 type; }; \
    template <> struct texture_float<kind##2> { typedef float2 type; }; \
    template <> struct texture_float<kind##4> { typedef float4 type; };
WARPSIM_TEXTURE_FLOAT(char)
WARPSIM_TEXTURE_FLOAT(uchar)
WARPSIM_TEXTURE_FLOAT(short)
WARPSIM_TEXTURE_FLOAT(ushort)
#undef WARPSIM_TEXTURE_FLOAT

template <class T, cudaTextureReadMode mode> struct texture_result { typedef T type; };
template <class T> struct texture_result<T, cudaReadModeNormalizedFloat> : texture_float<T> {};

#define WARPSIM_TEXTURE(name, dimensions, given, passed) \
    template <class T, cudaTextureReadMode mode> \
    __device__ __forceinline__ typename texture_result<T, mode>::type name(const texture_reference<T, dimensions, mode> &from, given) \
    { \
        return name<typename texture_result<T, mode>::type>((cudaTextureObject_t)&from, passed); \
    }
#define WARPSIM_LIST(...) __VA_ARGS__
WARPSIM_TEXTURE(tex1Dfetch, cudaTextureType1D, int x, x)
WARPSIM_TEXTURE(tex1D, cudaTextureType1D, float x, x)
WARPSIM_TEXTURE(tex2D, cudaTextureType2D, WARPSIM_LIST(float x, float y), WARPSIM_LIST(x, y))
WARPSIM_TEXTURE(tex3D, cudaTextureType3D, WARPSIM_LIST(float x, float y, float z), WARPSIM_LIST(x, y, z))
WARPSIM_TEXTURE(tex1DLayered, cudaTextureType1DLayered, WARPSIM_LIST(float x, int layer), WARPSIM_LIST(x, layer))
WARPSIM_TEXTURE(tex2DLayered, cudaTextureType2DLayered, WARPSIM_LIST(float x, float y, int layer), WARPSIM_LIST(x, y, layer))
WARPSIM_TEXTURE(texCubemap, cudaTextureTypeCubemap, WARPSIM_LIST(float x, float y, float z), WARPSIM_LIST(x, y, z))
#undef WARPSIM_TEXTURE
#undef WARPSIM_LIST
