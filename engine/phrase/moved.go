package phrase

import (
	"cmp"
	"strings"

	"lockstep/engine/inspect"
)

// movedSentence says what differs from an approved plan: {is} for the value now, {was} for the approved one, and {field} for what has
// it. gone and added are for a difference without the one or the other; without them, differs is.
type movedSentence struct{ differs, gone, added string }

const usedOnce = ": a plan can be used once"

var movedSentences = map[inspect.MovedWhat]movedSentence{
	inspect.MovedCluster:   {differs: "the cluster is another one"},
	inspect.MovedOperation: {differs: "the operation is {is}, approved was {was}"},
	inspect.MovedNamespace: {differs: "the namespace is {is}, approved was {was}"},
	inspect.MovedRelease: {
		differs: "release {field} needs other releases",
		gone:    "release {field} is approved, but has nothing to do or is not selected",
		added:   "release {field} is not in the approved plan",
	},
	inspect.MovedHook: {
		differs: "hook {field} runs {is}, approved was {was}",
		gone:    "hook {field} is approved, but does not run",
		added:   "hook {field} is not in the approved plan",
	},
	inspect.MovedRevision: {
		differs: "release {field} is at revision {is} now, and was at {was} when the plan was saved" + usedOnce,
		gone:    "release {field} does not exist any more" + usedOnce,
		added:   "release {field} is at revision {is} now, and did not exist when the plan was saved" + usedOnce,
	},
	inspect.MovedTarget: {differs: "the rollback is to revision {is}, approved was {was}"},
	inspect.MovedChart:  {differs: "the chart is {is}, approved was {was}"},
	inspect.MovedFiles:  {differs: "the files of chart {field} have changed"},
	inspect.MovedValues: {differs: "the values have changed"},
	inspect.MovedOption: {differs: "option {field} is {is}, approved was {was}"},
	inspect.MovedOrder:  {differs: "group {field} has other objects or waits for other groups"},
	inspect.MovedNew:    {differs: "is not in the approved plan"},
	inspect.MovedGone:   {differs: "is approved, but no longer part of the operation"},
	inspect.MovedSent:   {differs: "{field} is rendered differently"},
	inspect.MovedLive:   {differs: "{field} has changed in the cluster"},
	inspect.MovedAction: {differs: "the action is {is}, approved was {was}{field}"},
}

// Moved says what differs from an approved plan.
func Moved(m inspect.Moved) string {
	s, field, about := movedSentences[m.What], m.Field, ""
	sentence := s.differs
	switch {
	case m.Is == "":
		sentence = cmp.Or(s.gone, sentence)
	case m.Was == "":
		sentence = cmp.Or(s.added, sentence)
	}
	if m.Object != nil {
		about = m.Object.String() + ": "
	}
	switch {
	case m.Secret:
		field = "a secret value"
	case m.What == inspect.MovedAction && field != "":
		field = " (" + field + ")"
	}
	return about + strings.NewReplacer("{is}", cmp.Or(m.Is, "not set"), "{was}", cmp.Or(m.Was, "not set"), "{field}", field).Replace(sentence)
}
