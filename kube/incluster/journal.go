package incluster

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"

	"lockstep/kube/journal"
)

// journalVar is the environment variable that tells the pod the Secret of its journal.
const journalVar = "LOCKSTEP_JOURNAL"

// JournalName returns the name of the Secret in which the runs of a release or a stack keep their journals (S13). It
// depends on nothing else, so that a Role can name it. Each Job of the release has its own key, and owns the Secret.
func JournalName(release string) string { return namePrefix(release) + "journal" }

// newJournal returns the Secret of the journals of a release.
func (t Task) newJournal() *corev1.Secret {
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Name: JournalName(t.Release), Namespace: t.Namespace, Labels: t.labels(),
		},
	}
}

// createJournal creates the Secret of the journals of a release, or makes the Job one more owner of it. One of that name that is not
// lockstep's is an error: its new owner would delete it.
func createJournal(ctx context.Context, kube kubernetes.Interface, s *corev1.Secret, owner metav1.OwnerReference) error {
	owner.Controller, owner.BlockOwnerDeletion = nil, nil // several Jobs may own it
	s.OwnerReferences = []metav1.OwnerReference{owner}
	secrets := kube.CoreV1().Secrets(s.Namespace)
	for {
		_, err := secrets.Create(ctx, s, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) {
			err = own(ctx, secrets, s)
		}
		if apierrors.IsNotFound(err) && ctx.Err() == nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			if _, err := kube.CoreV1().Namespaces().Get(ctx, s.Namespace, metav1.GetOptions{}); err == nil {
				continue // deleted between the two requests, with its last Job
			}
		}
		if err != nil {
			return fmt.Errorf("create Secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		return nil
	}
}

// own adds owners to a Secret. A dry run first tells whose it is: whoever starts runs may not be allowed to read Secrets.
func own(ctx context.Context, secrets coreclient.SecretInterface, s *corev1.Secret) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"ownerReferences": s.OwnerReferences}})
	if err != nil {
		return err
	}
	would, err := secrets.Patch(ctx, s.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return err
	}
	if would.Labels[labelManaged] != s.Labels[labelManaged] {
		return errors.New("a Secret of this name exists and is not lockstep's; give it another name, runs in the cluster keep their state in this one")
	}
	_, err = secrets.Patch(ctx, s.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{})
	return err
}

// OpenJournal opens the journal of the run in this pod. It returns nil outside of such a pod.
func OpenJournal(ctx context.Context, kube kubernetes.Interface) (*journal.Journal, error) {
	namespace, job, ok := strings.Cut(JobID(), "/")
	secret := os.Getenv(journalVar)
	if !ok || secret == "" {
		return nil, nil
	}
	key := strings.ReplaceAll(job, "/", ".")
	return journal.Open(ctx, &secretStore{
		secrets: kube.CoreV1().Secrets(namespace), name: secret, key: key, deleted: func(ctx context.Context) bool { return Deleted(ctx, kube) != "" },
	}, rand.Text())
}

// secretStore stores a journal under a key of a Secret.
type secretStore struct {
	secrets coreclient.SecretInterface
	name    string
	key     string
	version string // resourceVersion of the Secret as last seen
	data    []byte // under the key, as last seen
	// deleted reports whether the Job was deleted. The Secret goes with it, and no pod needs it any more.
	deleted func(context.Context) bool
}

func (s *secretStore) Load(ctx context.Context) ([]byte, error) {
	secret, err := s.secrets.Get(ctx, s.name, metav1.GetOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", s.name, err)
	}
	s.version, s.data = secret.ResourceVersion, secret.Data[s.key]
	return s.data, nil
}

func (s *secretStore) Save(ctx context.Context, data []byte) error {
	for {
		err := s.patch(ctx, data)
		if apierrors.IsNotFound(err) && s.deleted(ctx) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		before := string(s.data)
		if _, err := s.Load(ctx); err != nil {
			return err
		}
		switch string(s.data) {
		case string(data): // an earlier request arrived
			return nil
		case before: // the journal of another Job has changed
		default:
			return journal.ErrChanged
		}
	}
}

func (s *secretStore) patch(ctx context.Context, data []byte) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": s.version}, "data": map[string][]byte{s.key: data}})
	if err != nil {
		return err
	}
	secret, err := s.secrets.Patch(ctx, s.name, types.MergePatchType, patch, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("write Secret %s: %w", s.name, err)
	}
	s.version, s.data = secret.ResourceVersion, data
	return nil
}
