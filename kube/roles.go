package kube

import (
	"io"

	"lockstep/kube/incluster"
	"lockstep/kube/permissions"
)

// Roles are a ServiceAccount and its roles. Set the exported fields, then call WriteRoles.
type Roles = permissions.Roles

// WriteRoles prints, as YAML, a ServiceAccount with exactly the permissions to install, upgrade, roll back,
// test and uninstall the releases of planned operations (Common.PlanOnly).
func WriteRoles(w io.Writer, roles Roles, ops ...*Operation) error {
	roles.Journal = incluster.JournalName(roles.Name)
	for _, op := range ops {
		if err := op.AddPermissions(&roles); err != nil {
			return err
		}
	}
	return roles.Write(w)
}
