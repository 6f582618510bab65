package connect

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// ClusterID identifies a cluster, whatever contexts are called and whoever connects. Compare it with ==.
type ClusterID struct{ text string }

func (id ClusterID) String() string { return id.text }

// Signs are what a connection shows of its cluster. ClusterIDs makes identities of them.
type Signs struct {
	uid     string // of namespace kube-system, "" if the user may not read it
	address string
}

// MarshalText returns the signs for another process.
func (s Signs) MarshalText() ([]byte, error) { return []byte(s.uid + " " + s.address), nil }

// UnmarshalText is the inverse of MarshalText.
func (s *Signs) UnmarshalText(text []byte) error {
	s.uid, s.address, _ = strings.Cut(string(text), " ")
	return nil
}

// SameCluster reports whether a connection that shows signs is to the client's cluster, and whether that is certain: two
// addresses may be one cluster. It sends no request if the addresses are the same.
func (c *Client) SameCluster(ctx context.Context, there Signs) (same, certain bool) {
	if address, err := c.address(); err != nil || address == there.address {
		return err == nil, err == nil
	}
	here, err := c.Signs(ctx)
	if err != nil {
		return false, false
	}
	return here.uid != "" && here.uid == there.uid, here.uid != "" && there.uid != ""
}

// UID returns that of namespace kube-system, "" if the user may not read it.
func (s Signs) UID() string { return s.uid }

// Server returns the address of the API server.
func (s Signs) Server() string {
	server, _, _ := strings.Cut(s.address, " ")
	return server
}

// Signs reads what identifies the cluster.
func (c *Client) Signs(ctx context.Context) (s Signs, err error) {
	if s.address, err = c.address(); err != nil {
		return s, err
	}
	ns, err := c.Clientset.CoreV1().Namespaces().Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case err == nil:
		s.uid = string(ns.UID)
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
	default:
		if why := c.CheckReachable(ctx); why != nil {
			return s, why
		}
		return s, fmt.Errorf("find out which cluster context %q is: %w", c.ContextName(), err)
	}
	return s, nil
}

// address returns the server's address in the kubeconfig with the name and the CA that it must have.
func (c *Client) address() (string, error) {
	s, err := c.Getter.server()
	if err != nil {
		return "", c.kubeconfigError(err)
	}
	config := rest.CopyConfig(s.config)
	if err := rest.LoadTLSFiles(config); err != nil {
		return "", fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	ca := sha256.Sum256(config.CAData)
	return s.url + " " + config.ServerName + " " + hex.EncodeToString(ca[:]), nil
}

// ClusterNames returns the identities of clusters as sorted texts, each once.
func ClusterNames(ids []ClusterID) (names []string) {
	for _, id := range ids {
		names = append(names, id.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// ClusterIDs returns the identities of the clusters that show the signs, in the same order. A connection that may not read
// the UID is in the cluster of one that may, at the same address; weak reports those for which there is none, so that
// only the address identifies their cluster.
//
// Rule S10: a cluster is the UID of its namespace kube-system, whatever its contexts are called
func ClusterIDs(all ...Signs) (ids []ClusterID, weak []bool) {
	uids := map[string]string{} // by address
	for _, s := range all {
		if s.uid != "" {
			uids[s.address] = s.uid
		}
	}
	for _, s := range all {
		uid := cmp.Or(s.uid, uids[s.address])
		if weak = append(weak, uid == ""); uid != "" {
			ids = append(ids, ClusterID{"uid " + uid})
		} else {
			ids = append(ids, ClusterID{"address " + s.address})
		}
	}
	return ids, weak
}
