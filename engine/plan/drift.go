package plan

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// AnnotationIgnoreDrift lists JSON pointers to fields of the object whose changes in the cluster do not count as drift (S18).
const AnnotationIgnoreDrift = "lockstep/ignore-drift"

// jsonPointer matches a JSON pointer to a part of an object.
var jsonPointer = regexp.MustCompile(`^(/([^~/]|~[01])+)+$`)

// ReadIgnoredDrift reads AnnotationIgnoreDrift. The error completes a sentence about the object; then nothing is ignored.
func ReadIgnoredDrift(annotations map[string]string) (pointers []string, err error) {
	value := annotations[AnnotationIgnoreDrift]
	if blankList(value) {
		return nil, nil
	}
	pointers, err = ParseList(value)
	if err != nil {
		return nil, fmt.Errorf(`annotation %s must be a list of JSON pointers, such as '["/spec/replicas"]', but is %s; it is not used`, AnnotationIgnoreDrift, quote(value))
	}
	for _, p := range pointers {
		if !jsonPointer.MatchString(p) {
			return nil, fmt.Errorf("annotation %s: %s is not a JSON pointer, such as /spec/replicas; the annotation is not used", AnnotationIgnoreDrift, quote(p))
		}
	}
	return pointers, nil
}

// InPointer reports whether a JSON pointer is one of some others or leads into what they point to.
func InPointer(pointer string, others []string) bool {
	return slices.ContainsFunc(others, func(o string) bool { return pointer == o || strings.HasPrefix(pointer, o+"/") })
}

// warnIgnoredDrift warns about invalid values of AnnotationIgnoreDrift.
func (p *planner) warnIgnoredDrift(charts []*chartNode) {
	for _, c := range charts {
		for _, m := range c.members {
			if _, err := ReadIgnoredDrift(m.Annotations); err != nil {
				p.warn("S18", c.path, &m.Object, "%s: %v", m.Object, err)
			}
		}
	}
}
