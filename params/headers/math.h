// Constants; the functions are the compiler's own.
#pragma once
#define INFINITY __int_as_float(0x7f800000)
#define NAN __int_as_float(0x7fffffff)
#define HUGE_VAL __longlong_as_double(0x7ff0000000000000LL)
#define HUGE_VALF INFINITY
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_E 2.7182818284590452354
#define M_SQRT2 1.41421356237309504880
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT1_2 0.70710678118654752440
#define M_LOG2E 1.4426950408889634074
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
namespace std {
using ::sqrt; using ::exp; using ::log; using ::pow; using ::sin; using ::cos; using ::tan; using ::tanh; using ::fabs;
using ::floor; using ::ceil; using ::fmin; using ::fmax; using ::fma; using ::round; using ::trunc; using ::abs;
using ::isinf; using ::isnan; using ::isfinite; using ::signbit; using ::copysign; using ::nextafter;
using ::fmod; using ::remainder; using ::remquo; using ::modf; using ::fdim; using ::hypot; using ::cbrt;
using ::exp2; using ::expm1; using ::log2; using ::log10; using ::log1p; using ::logb; using ::ilogb;
using ::ldexp; using ::frexp; using ::scalbn; using ::scalbln;
using ::asin; using ::acos; using ::atan; using ::atan2; using ::sinh; using ::cosh; using ::asinh; using ::acosh; using ::atanh;
using ::erf; using ::erfc; using ::tgamma; using ::lgamma;
using ::rint; using ::nearbyint; using ::lround; using ::llround; using ::lrint; using ::llrint;
}
