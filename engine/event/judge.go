package event

// Judge is the rule by which an object counts as ready (R22).
type Judge string

const (
	ByKstatus     Judge = "kstatus"
	ByChart       Judge = "chart"        // the expressions in the object's annotations (R23)
	ByOperator    Judge = "operator"     // an expression or file that the operator passes
	ByBuiltIn     Judge = "built-in"     // lockstep's own rule for the kind
	ByStart       Judge = "started"      // a Job that has started and is not complete
	ByExistence   Judge = "exists"       // the kind has no status
	ByFirstStatus Judge = "first-status" // its controller wrote a status that kstatus has no rule for
	ByNoStatus    Judge = "no-status"    // its controller wrote no status in time
	NotAwaited    Judge = "not-awaited"  // the user asked not to wait for it
	BySettling    Judge = "settled"      // still ready some time after its containers started
)

var judgeTexts = map[Judge]string{
	ByKstatus:     "by kstatus",
	ByChart:       "by the chart's expressions",
	ByOperator:    "by the operator's rule",
	ByBuiltIn:     "by lockstep's rule for its kind",
	ByExistence:   "because it exists",
	ByFirstStatus: "by the first status of its controller",
	ByNoStatus:    "without a status of its controller",
	NotAwaited:    "not waited for",
	BySettling:    "after it settled",
}

// Text describes the rule after the word "ready": "by kstatus".
func (j Judge) Text() string { return judgeTexts[j] }

// IsUsual reports whether a short text need not name the rule: it is the one for most objects of the kind, or the status to
// show says so.
func (j Judge) IsUsual() bool {
	switch j {
	case "", ByKstatus, ByBuiltIn, ByExistence, ByStart:
		return true
	}
	return false
}
