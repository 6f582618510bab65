package bench

// maxrssUnit is how many bytes the kernel counts the peak memory in.
const maxrssUnit = 1
