package inspect

import "lockstep/engine/plan"

// Moved is a difference between what was approved and what an operation would do now. phrase.Moved has its sentence.
type Moved struct {
	What MovedWhat
	// Object is nil if the difference is about the whole operation.
	Object *plan.Object
	// Field is the path of a field, the name of an option or a chart, the id of a release, a hook or a group, or for an action the
	// reason.
	Field string
	// Was and Is are the approved value and the value now, "" for none. Fields of objects have neither; charts' files and values have
	// digests.
	Was, Is string
	// Secret means that it is about secret values; which, is not known.
	Secret bool
}

// MovedWhat says what differs.
type MovedWhat int

const (
	MovedCluster MovedWhat = iota
	MovedOperation
	MovedNamespace
	MovedRelease  // of a stack, or the releases that it needs
	MovedHook     // a program that a stack runs
	MovedRevision // of the release
	MovedTarget   // the revision that a rollback restores
	MovedChart
	MovedFiles // of the same chart
	MovedValues
	MovedOption
	MovedOrder
	MovedNew    // the object is not in the approved plan
	MovedGone   // the object is only in the approved plan
	MovedSent   // a field that is sent
	MovedLive   // a field in the cluster, before or after the change
	MovedAction // what is done to the object
)
