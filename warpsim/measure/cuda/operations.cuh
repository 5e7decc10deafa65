// One operation, chosen by -DOP_name, as macros:
//   TYPE        type of the value that is handed from one instruction to the next
//   FIRST       its first value; it differs from thread to thread, or the compiler would use uniform registers
//   STEP(x, k)  replaces x by a value that depends on it; k is the number of the step, a constant
// b[] and c[] are four values each, read from memory. Steps use them in turn where equal operands would let ptxas merge
// neighbouring steps into one instruction.

#undef TYPE
#undef FIRST
#undef STEP
#undef SHARED_POINTERS
#undef GLOBAL_POINTERS
#undef GLOBAL_LOW_HALVES
#undef CONSTANT_TABLE

#if defined(OP_fadd)
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("add.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(fb))
#elif defined(OP_fmul)
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("mul.rn.f32 %0, %0, %1;" : "+f"(x) : "f"(fb))
#elif defined(OP_ffma)
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("fma.rn.f32 %0, %0, %1, %2;" : "+f"(x) : "f"(fb), "f"(fc))

#elif defined(OP_iadd3)  // two additions, which become one three-input IADD3
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("{ .reg .u32 t; add.u32 t, %0, %1; add.u32 %0, t, %2; }" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))
#elif defined(OP_imad)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("mad.lo.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))
#elif defined(OP_imad_hi)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("mul.hi.u32 %0, %0, %1;" : "+r"(x) : "r"(b[(k) & 3]))
#elif defined(OP_imad_wide)  // a 64-bit product, and the exclusive or of its halves, so that both are needed
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("{ .reg .u64 p; .reg .u32 lo, hi; mul.wide.u32 p, %0, %1; mov.b64 {lo, hi}, p; xor.b32 %0, lo, hi; }" : "+r"(x) : "r"(b[(k) & 3]))
#elif defined(OP_lop3)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("lop3.b32 %0, %0, %1, %2, 0x96;" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))
#elif defined(OP_shf)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("shf.l.wrap.b32 %0, %0, %1, %2;" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))
#elif defined(OP_prmt)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("prmt.b32 %0, %0, %1, %2;" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))
#elif defined(OP_dp4a)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("dp4a.u32.u32 %0, %0, %1, %2;" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))
#elif defined(OP_popc)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("popc.b32 %0, %0;" : "+r"(x))

#elif defined(OP_dadd)
#define TYPE double
#define FIRST (double)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("add.rn.f64 %0, %0, %1;" : "+d"(x) : "d"(db))
#elif defined(OP_dfma)
#define TYPE double
#define FIRST (double)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("fma.rn.f64 %0, %0, %1, %2;" : "+d"(x) : "d"(db), "d"(dc))
#elif defined(OP_hfma2)  // two half-precision values in a register
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(x) : "r"(b[(k) & 3]), "r"(c[(k) & 3]))

#elif defined(OP_rcp)  // and an addition, since ptxas drops a pair of reciprocals
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("{ .reg .f32 t; rcp.approx.ftz.f32 t, %0; add.rn.f32 %0, t, %1; }" : "+f"(x) : "f"(fb))
#elif defined(OP_rsqrt)
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("rsqrt.approx.ftz.f32 %0, %0;" : "+f"(x))
#elif defined(OP_sqrt)
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("sqrt.approx.ftz.f32 %0, %0;" : "+f"(x))
#elif defined(OP_ex2)
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("ex2.approx.ftz.f32 %0, %0;" : "+f"(x))
#elif defined(OP_sin)  // a multiplication by 1 / 2 pi, and MUFU.SIN
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("sin.approx.ftz.f32 %0, %0;" : "+f"(x))

#elif defined(OP_cvt_f32_s32)  // to an integer and back: two conversions
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("{ .reg .s32 t; cvt.rzi.s32.f32 t, %0; cvt.rn.f32.s32 %0, t; }" : "+f"(x))
#elif defined(OP_cvt_f32_f64)  // to double and back: two conversions
#define TYPE float
#define FIRST (float)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("{ .reg .f64 t; cvt.f64.f32 t, %0; cvt.rn.f32.f64 %0, t; }" : "+f"(x))

#elif defined(OP_shfl)
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("shfl.sync.bfly.b32 %0, %0, 1, 0x1f, 0xffffffff;" : "+r"(x))

// A word of shared memory holds its own address, so that each load takes its address from the load before. Lane i uses
// word i * WAYS: WAYS lanes share a bank.
#elif defined(OP_lds)
#define SHARED_POINTERS
#define TYPE u32
#define FIRST shared_address(&words[lane_id() * WAYS])
#define STEP(x, k) asm volatile("ld.shared.u32 %0, [%0];" : "+r"(x))
#elif defined(OP_lds_64)  // the second word is added as well, or the compiler would load 32 bits
#define SHARED_POINTERS
#define TYPE u32
#define FIRST shared_address(&words[lane_id() * 2])
#define STEP(x, k) asm volatile("ld.volatile.shared.v2.u32 {%0, %1}, [%0];" : "+r"(x), "=r"(spare))
#elif defined(OP_lds_128)
#define SHARED_POINTERS
#define TYPE u32
#define FIRST shared_address(&words[lane_id() * 4])
#define STEP(x, k) asm volatile("ld.volatile.shared.v4.u32 {%0, %1, %2, %3}, [%0];" : "+r"(x), "=r"(spare), "=r"(spare2), "=r"(spare3))
#elif defined(OP_atoms)  // an atomic in shared memory, each lane on a word of its own
#define SHARED_POINTERS
#define TYPE u32
#define FIRST (u32)(seed + threadIdx.x)
#define STEP(x, k) asm volatile("atom.shared.add.u32 %0, [%1], %0;" : "+r"(x) : "r"(shared_word))

// A word of global memory holds its own address; after the first pass over the code all loads hit L1.
#elif defined(OP_ldg)  // the low half of the address is loaded, the high half stays
#define GLOBAL_LOW_HALVES
#define TYPE u64
#define FIRST data + 256 + 4 * lane_id()
#define STEP(x, k) asm volatile("{ .reg .u32 lo, hi; mov.b64 {lo, hi}, %0; ld.global.u32 lo, [%0]; mov.b64 %0, {lo, hi}; }" : "+l"(x))
#elif defined(OP_ldg_64)
#define GLOBAL_POINTERS
#define TYPE u64
#define FIRST data + 256 + 8 * lane_id()
#define STEP(x, k) asm volatile("ld.global.u64 %0, [%0];" : "+l"(x))
#elif defined(OP_ldc)  // a table of zeros in constant memory, which the compiler takes for variable
#define CONSTANT_TABLE
#define TYPE u32
#define FIRST threadIdx.y
#define STEP(x, k) x = table[x]

#elif defined(OP_hmma)  // matrix product in half precision, summed in single; 16x8x16, before compute capability 8.0 16x8x8
#define TYPE Fragment
struct Fragment { float v[4]; };
#define FIRST { { (float)seed, 0, 0, 0 } }
#if __CUDA_ARCH__ >= 800
#define STEP(x, k) asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
    : "+f"(x.v[0]), "+f"(x.v[1]), "+f"(x.v[2]), "+f"(x.v[3]) : "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]), "r"(c[0]), "r"(c[1]))
#else
#define STEP(x, k) asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};" \
    : "+f"(x.v[0]), "+f"(x.v[1]), "+f"(x.v[2]), "+f"(x.v[3]) : "r"(b[0]), "r"(b[1]), "r"(c[0]))
#endif
#else
#error "define one operation: -DOP_fadd, for example"
#endif

#ifndef WAYS
#define WAYS 1
#endif
