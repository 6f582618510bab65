//go:build !race

package run

const racing = false
