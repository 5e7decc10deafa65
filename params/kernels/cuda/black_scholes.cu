// Prices of European options by the formula of Black and Scholes, an option for each thread. The normal distribution is a polynomial
// of fifth degree (Abramowitz and Stegun, 26.2.17), as in the sample of the CUDA SDK (Podlozhnyuk 2007).

// FAST: the operations that the compiler takes with -use_fast_math.
template <bool FAST>
struct Maths {
    static __device__ float divide(float a, float b) { return FAST ? __fdividef(a, b) : a / b; }
    static __device__ float exponential(float x) { return FAST ? __expf(x) : expf(x); }
    static __device__ float logarithm(float x) { return FAST ? __logf(x) : logf(x); }
    static __device__ float root(float x)
    {
        float y;
        if (FAST)
            asm("sqrt.approx.f32 %0, %1;" : "=f"(y) : "f"(x));
        else
            y = sqrtf(x);
        return y;
    }

    // The probability that a normal variable is below d.
    static __device__ float normal(float d)
    {
        float k = divide(1.0f, 1.0f + 0.2316419f * fabsf(d));
        float tail = ((((1.330274429f * k - 1.821255978f) * k + 1.781477937f) * k - 0.356563782f) * k + 0.319381530f) * k;
        tail *= 0.39894228f * exponential(-0.5f * d * d);
        return d > 0 ? 1.0f - tail : tail;
    }
};

template <bool FAST>
__device__ void price(float *call, float *put, const float *spot, const float *strike, const float *years, float rate, float volatility,
                      int n)
{
    typedef Maths<FAST> M;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n)
        return;
    float s = spot[i], x = strike[i], t = years[i], root = M::root(t);
    float d1 = M::divide(M::logarithm(M::divide(s, x)) + (rate + 0.5f * volatility * volatility) * t, volatility * root);
    float d2 = d1 - volatility * root, p1 = M::normal(d1), p2 = M::normal(d2), discounted = x * M::exponential(-rate * t);
    call[i] = s * p1 - discounted * p2;
    put[i] = discounted * (1.0f - p2) - s * (1.0f - p1);
}

#define BLACK_SCHOLES(name, fast) \
    extern "C" __global__ void name(float *call, float *put, const float *spot, const float *strike, const float *years, float rate, \
                                    float volatility, int n) \
    { \
        price<fast>(call, put, spot, strike, years, rate, volatility, n); \
    }

BLACK_SCHOLES(black_scholes, false)
BLACK_SCHOLES(black_scholes_fast, true)
