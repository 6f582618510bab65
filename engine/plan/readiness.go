package plan

// readiness reports which of the two readiness annotations a resource has. One
// that is blank or an empty list counts as none.
func (m *member) readiness() (success, failure bool) {
	has := func(key string) bool {
		value := m.Annotations[key]
		if value == "" { // most have none, and to find that out costs nothing
			return false
		}
		list, err := ParseList(value)
		return err == nil && len(list) > 0
	}
	return has(AnnotationReadinessSuccess), has(AnnotationReadinessFailure)
}

// checkReadiness refuses readiness annotations that cannot be read: the resource
// would come up as if it had none, and what waits for it too early.
//
// Rule R24: one of the two without the other is not used, and said so.
func (p *planner) checkReadiness(c *chartNode, m *member) {
	for _, f := range m.Faults {
		p.fail(f.Rule, c.path, &m.Object, "%s: %s", m.Object, f.Message)
	}
	for _, key := range []string{AnnotationReadinessSuccess, AnnotationReadinessFailure} {
		value := m.Annotations[key]
		if blankList(value) {
			continue
		}
		if _, err := ParseList(value); err != nil {
			p.fail("R2", c.path, &m.Object, "%s: annotation %s is %s: %v", m.Object, key, quote(value), err)
			return
		}
	}
	success, failure := m.readiness()
	if success == failure {
		return
	}
	has, lacks := AnnotationReadinessSuccess, AnnotationReadinessFailure
	if failure {
		has, lacks = lacks, has
	}
	p.warn("R24", c.path, &m.Object, "%s: has %s without %s; it is not used", m.Object, has, lacks)
}
