package kube

import (
	"io"

	"lockstep/kube/rights"
)

// Roles names what WriteRoles prints: a ServiceAccount in a namespace, and the Name of the
// roles that it gets.
type Roles = rights.Roles

// WriteRoles prints, as YAML, a ServiceAccount with exactly the rights to install, upgrade,
// roll back, test and uninstall the releases of operations that are only planned.
func WriteRoles(w io.Writer, roles Roles, ops ...*Operation) error {
	for _, op := range ops {
		if err := op.AddRights(&roles); err != nil {
			return err
		}
	}
	return roles.Write(w)
}
