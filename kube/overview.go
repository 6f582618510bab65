package kube

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"lockstep/engine/text"
	"lockstep/kube/overview"
)

// The live list of the releases of a namespace, and the revisions of one of them.
type (
	Overview        = overview.Overview
	ReleaseKey      = overview.Key
	ReleaseRow      = overview.Release
	ReleaseDetails  = overview.Details
	ReleaseHealth   = overview.Health
	ReleaseHistory  = overview.History
	ReleaseRevision = overview.Revision
)

// Overview returns an Overview of a namespace, "" for all. It sends no request until Overview.Follow.
func (c *Client) Overview(namespace string) *Overview { return overview.New(c.Client, namespace) }

// ReleaseHistory reads the revisions of a release.
func (c *Client) ReleaseHistory(ctx context.Context, k ReleaseKey) (*ReleaseHistory, error) {
	h, err := overview.ReadHistory(ctx, c.Client, k)
	return h, c.ExplainDenied(err)
}

// Denied returns why operations are not permitted in a namespace, by their names.
func (c *Client) Denied(ctx context.Context, namespace string) (map[string]string, error) {
	return overview.Denied(ctx, c.Client, namespace)
}

// LacksNamespace reports whether the cluster says that a namespace does not exist.
func (c *Client) LacksNamespace(ctx context.Context, name string) bool {
	_, err := c.Metadata.Resource(namespaces).Get(ctx, name, metav1.GetOptions{})
	return apierrors.IsNotFound(err)
}

var namespaces = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}

// Namespaces lists the names of the namespaces in their natural order.
func (c *Client) Namespaces(ctx context.Context) (names []string, err error) {
	list, err := c.Metadata.Resource(namespaces).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, c.ExplainDenied(err)
	}
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	slices.SortFunc(names, text.CompareNatural)
	return names, nil
}
