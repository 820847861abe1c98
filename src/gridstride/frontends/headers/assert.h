// Stand-in for the C header: the compiler itself has assert. NDEBUG is obeyed as anywhere else.
#ifdef NDEBUG
#undef assert
#define assert(condition) ((void)0)
#endif
