package diagnose

import (
	"regexp"
	"strings"
)

var (
	noNodes    = regexp.MustCompile(`^0/(\d+) nodes are available: `)
	nodeReason = regexp.MustCompile(`^(\d+) (node\(s\) |Insufficient )?(.*)$`)
	// preemption matches the end of a message, which explains nothing. Kubernetes 1.35 mentions claims before it; a
	// message about claims may end in "not found" instead.
	preemption = regexp.MustCompile(`(?: (?:no new claims to deallocate|still not schedulable),)? preemption: .*|\. not found$`)
)

// schedulingCause rewrites the scheduler's message: "2 of 2 nodes lack CPU" for
// "0/2 nodes are available: 2 Insufficient cpu. preemption: …".
func schedulingCause(message string) string {
	m := noNodes.FindStringSubmatch(message)
	if m == nil {
		return message
	}
	total, reasons := m[1], strings.TrimRight(preemption.ReplaceAllString(message[len(m[0]):], ""), ". ")
	var parts []string
	lackedByAll := -1 // index of the part with the resources that every node lacks
	for reason := range strings.SplitSeq(reasons, ", ") {
		r := nodeReason.FindStringSubmatch(reason)
		if r == nil {
			return reasons + " (" + total + plural(total, " node)", " nodes)")
		}
		count, subject, what := r[1], r[2], r[3]
		if what == "cpu" {
			what = "CPU"
		}
		if lackedByAll >= 0 && subject == "Insufficient " && count == total {
			parts[lackedByAll] += " and " + what
			continue
		}
		text := count
		if len(parts) == 0 {
			text += " of " + total + plural(total, " node", " nodes")
		}
		switch subject {
		case "Insufficient ":
			text += plural(count, " lacks ", " lack ") + what
			if count == total {
				lackedByAll = len(parts)
			}
		case "":
			text += ": " + what
		default:
			text += " " + what
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

func plural(count, one, many string) string {
	if count == "1" {
		return one
	}
	return many
}
