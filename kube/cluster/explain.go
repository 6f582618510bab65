package cluster

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// secretive are values in the API server's words about a field of another type;
// they may be those of a Secret.
var secretive = regexp.MustCompile(`got &value\.valueUnstructured\{Value:.*?\}`)

// Explain adds to an error of the API server what a user can do about it.
func Explain(err error) error {
	switch {
	case isFieldConflict(err):
		return fmt.Errorf("%w; leave the fields that another manager owns out of the chart, or take them over with --force-conflicts", err)
	case len(immutable(err)) > 0:
		return &refusal{err, strings.Join(immutable(err), ", ") + "; this cannot be changed in place: delete the object and try again, or give it another name in the chart"}
	case secretive.MatchString(err.Error()):
		return &refusal{err, secretive.ReplaceAllString(err.Error(), "got something else; is it to be quoted?")}
	case apierrors.IsForbidden(err):
		return fmt.Errorf("%w; the user of this kubeconfig lacks the right", err)
	}
	return err
}

// isFieldConflict reports whether server-side apply was refused since somebody
// else owns fields.
func isFieldConflict(err error) bool {
	return apierrors.IsConflict(err) && apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict)
}

// IsMalformed reports whether an object was refused for what it is itself. For
// a field that its kind does not have, the API server's answer has no reason but
// in words.
func IsMalformed(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || err != nil && strings.HasPrefix(err.Error(), "failed to create typed patch object")
}

// immutable lists the fields of an object that was refused since they can be
// set only when it is created, each with the reason. API servers say that it is
// so in words alone, and with the whole value, which may be a page long.
func immutable(err error) (fields []string) {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, c := range status.Status().Details.Causes {
		for _, words := range []string{"field is immutable", "may not be changed", "may not change once set", "spec for fields other than", "pod updates may not change"} {
			if at := strings.Index(c.Message, words); at >= 0 {
				reason := c.Message[at:]
				if words == "spec for fields other than" || words == "pod updates may not change" {
					reason, _, _ = strings.Cut(c.Message, "\n")
				}
				fields = append(fields, c.Field+": "+reason)
				break
			}
		}
	}
	return fields
}

// refusal is an API server's answer in fewer words.
type refusal struct {
	error
	text string
}

func (r *refusal) Error() string { return r.text }
func (r *refusal) Unwrap() error { return r.error }
