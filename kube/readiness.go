package kube

import (
	"lockstep/kube/readiness"
)

// Readiness is what an operator says about the readiness of objects from outside their chart (R22b). Common.Readiness has a
// list of them.
type Readiness = readiness.Override

// ParseReadiness parses a value of --readiness: KIND.GROUP[/NAME]='SUCCESS; FAILURE'.
func ParseReadiness(value string) (Readiness, error) { return readiness.ParseFlag(value) }

// ParseNoWait parses a value of --no-wait-for: KIND/NAME or a label selector.
func ParseNoWait(value string) (Readiness, error) { return readiness.ParseNoWait(value) }

// ParseReadinessTimeout parses a value of --readiness-timeout for some objects, KIND/NAME=DURATION. forSome is false for a
// plain duration, which is for all of them.
func ParseReadinessTimeout(value string) (r Readiness, forSome bool, err error) {
	return readiness.ParseTimeout(value)
}

// ParseReadinessFile parses the content of a file of Readiness; name is for errors.
func ParseReadinessFile(name string, data []byte) ([]Readiness, error) {
	return readiness.ParseFile(name, data)
}

// ReadinessYAML returns the content of a file that ParseReadinessFile reads.
func ReadinessYAML(list []Readiness) ([]byte, error) { return readiness.FileOf(list) }

// JoinReadiness returns the statements of two sources. Where both have expressions for the same objects, the nearer source
// counts.
func JoinReadiness(farther, nearer []Readiness) []Readiness { return readiness.Join(farther, nearer) }

// CheckReadiness checks a list without a cluster.
func CheckReadiness(list []Readiness) error {
	_, err := readiness.New(list)
	return err
}
