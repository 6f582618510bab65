package phrase

import (
	"cmp"

	"lockstep/engine/inspect"
)

// Moved says what differs from an approved plan.
func Moved(m inspect.Moved) string {
	about := ""
	if m.Object != nil {
		about = m.Object.String() + ": "
	}
	field := m.Field
	if m.Secret {
		field = "a secret value"
	}
	switch m.What {
	case inspect.MovedCluster:
		return "the cluster is another one"
	case inspect.MovedOperation:
		return "the operation is " + m.Is + ", approved was " + m.Was
	case inspect.MovedNamespace:
		return "the namespace is " + m.Is + ", approved was " + m.Was
	case inspect.MovedRelease:
		if m.Is == "" {
			return "release " + m.Field + " is approved, but has nothing to do or is not selected"
		}
		return "release " + m.Field + " is not in the approved plan"
	case inspect.MovedNeeds:
		return "release " + m.Field + " needs other releases"
	case inspect.MovedHook:
		switch {
		case m.Is == "":
			return "hook " + m.Field + " is approved, but does not run"
		case m.Was == "":
			return "hook " + m.Field + " is not in the approved plan"
		}
		return "hook " + m.Field + " runs " + m.Is + ", approved was " + m.Was
	case inspect.MovedRevision:
		switch {
		case m.Field == "to":
			return "the rollback is to revision " + m.Is + ", approved was " + m.Was
		case m.Is == "0":
			return "release " + m.Field + " does not exist any more: a plan can be used once"
		case m.Was == "0":
			return "release " + m.Field + " is at revision " + m.Is + " now, and did not exist when the plan was saved: a plan can be used once"
		}
		return "release " + m.Field + " is at revision " + m.Is + " now, and was at " + m.Was + " when the plan was saved: a plan can be used once"
	case inspect.MovedChart:
		if m.Is == m.Was {
			return "the files of chart " + m.Is + " have changed"
		}
		return "the chart is " + m.Is + ", approved was " + m.Was
	case inspect.MovedValues:
		return "the values have changed"
	case inspect.MovedOption:
		return "option " + m.Field + " is " + cmp.Or(m.Is, "not set") + ", approved was " + cmp.Or(m.Was, "not set")
	case inspect.MovedOrder:
		return "group " + m.Field + " has other objects or waits for other groups"
	case inspect.MovedNew:
		return about + "is not in the approved plan"
	case inspect.MovedGone:
		return about + "is approved, but no longer part of the operation"
	case inspect.MovedSent:
		return about + field + " is rendered differently"
	case inspect.MovedLive:
		return about + field + " has changed in the cluster"
	}
	text := about + "the action is " + m.Is + ", approved was " + m.Was
	if m.Field != "" {
		text += " (" + m.Field + ")"
	}
	return text
}
