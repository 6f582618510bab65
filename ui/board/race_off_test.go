//go:build !race

package board

const racing = false
