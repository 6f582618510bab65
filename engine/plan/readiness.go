package plan

import "fmt"

// hasCustomReadiness reports whether an object has both readiness annotations, neither of them invalid
// or empty.
func (m *member) hasCustomReadiness() bool {
	success, _ := m.readinessList(AnnotationReadinessSuccess)
	failure, _ := m.readinessList(AnnotationReadinessFailure)
	return len(success) > 0 && len(failure) > 0
}

func (m *member) readinessList(key string) ([]string, error) {
	value := m.Annotations[key]
	if blankList(value) { // counts as absent (R2)
		return nil, nil
	}
	list, err := ParseList(value)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", m.Object, invalidAnnotation(key, value, err))
	}
	return list, nil
}

// checkReadiness refuses invalid readiness annotations: if it ignored them, groups that wait for
// the object would start too early.
//
// Rule R24: one of the two without the other is ignored, with a warning
func (p *planner) checkReadiness(c *chartNode, m *member) {
	success, err := m.readinessList(AnnotationReadinessSuccess)
	var failure []string
	if err == nil {
		failure, err = m.readinessList(AnnotationReadinessFailure)
	}
	if err != nil {
		p.fail("R2", c.path, &m.Object, "%v", err)
		return
	}
	for _, f := range m.Faults {
		p.fail(f.Rule, c.path, &m.Object, "%s: %s", m.Object, f.Message)
	}
	if (len(success) > 0) == (len(failure) > 0) {
		return
	}
	has, lacks := AnnotationReadinessSuccess, AnnotationReadinessFailure
	if len(failure) > 0 {
		has, lacks = lacks, has
	}
	problem := "missing; add it"
	if _, ok := Annotation(m.Annotations, lacks); ok {
		problem = "empty; add an expression"
	}
	p.warn("R24", c.path, &m.Object, "%s: %s is ignored because %s is %s", m.Object, has, lacks, problem)
}

// ReadinessAdvice says how to tell lockstep when an object is ready, after a sentence about it.
func ReadinessAdvice(o Object) string {
	return fmt.Sprintf("to say when it is ready, annotate it with %s and %s, or use --readiness %s.%s=...",
		AnnotationReadinessSuccess, AnnotationReadinessFailure, o.Kind, o.Group)
}
