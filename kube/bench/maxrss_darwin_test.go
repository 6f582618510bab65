package bench

// maxrssUnit is the unit, in bytes, in which the kernel reports the peak memory.
const maxrssUnit = 1
