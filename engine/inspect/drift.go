package inspect

import (
	"slices"

	"lockstep/engine/event"
	"lockstep/engine/plan"
)

// Drift is how the cluster differs from the record of a release (S18). Secret values are hidden.
type Drift struct {
	Release   string `json:"release"`
	Namespace string `json:"namespace"`
	Context   string `json:"context,omitempty"` // of the kubeconfig, if the releases have several
	At        string `json:"at,omitempty"`      // of the release in a helmfile, file:line
	Revision  int    `json:"revision,omitempty"`
	// Compared are the objects that the record has, in its order, and Objects those that differ. Both are empty if Error says why
	// the release could not be compared.
	Compared []plan.Object   `json:"-"`
	Objects  []DriftedObject `json:"objects"`
	// Warnings say what was not compared, or not as the chart wants it.
	Warnings []plan.Warning `json:"warnings,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// DriftedObject is an object that differs from the record of its release.
type DriftedObject struct {
	Object plan.Object `json:"object"`
	// Gone is set if the cluster does not have the object, or deletes it. Message says more.
	Gone    bool           `json:"gone,omitempty"`
	Message string         `json:"message,omitempty"`
	Fields  []DriftedField `json:"fields,omitempty"`
	// Owner is who else it belongs to now, such as another release that has taken it over. A repair leaves it alone.
	Owner string `json:"owner,omitempty"`
	// Unread is why the object could not be compared; then it has no Fields.
	Unread string `json:"unread,omitempty"`
}

// DriftedField is a field that the cluster has otherwise, or lacks.
type DriftedField struct {
	event.Drift
	Pointer string `json:"pointer"` // the JSON pointer to it, in the record
	From    any    `json:"from"`
	// To is the value in the cluster, null if the field is gone.
	To any `json:"to"`
	// Subresource is the one that the manager wrote.
	Subresource string `json:"subresource,omitempty"`
}

// Repairs reports whether a repair applies the object again.
func (o DriftedObject) Repairs() bool { return o.Unread == "" && o.Owner == "" }

// Repairable reports whether a repair would apply an object again.
func (d Drift) Repairable() bool { return slices.ContainsFunc(d.Objects, DriftedObject.Repairs) }

// Drifted returns how many objects differ, and how many could not be compared.
func (d Drift) Drifted() (differ, unread int) {
	for _, o := range d.Objects {
		if o.Unread != "" {
			unread++
		} else {
			differ++
		}
	}
	return differ, unread
}
