// Package controlplane runs the real parts of a Kubernetes cluster in this process: etcd, kube-apiserver,
// kube-controller-manager and kube-scheduler.
//
// Feature gates, metrics and configz of these components are global to the process: one cluster per process.
package controlplane

import (
	"context"
	"net/url"

	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// EtcdConfig is where an etcd keeps its data. It listens on unix sockets, since any local user could
// reach a port.
type EtcdConfig struct {
	Dir, LogFile             string
	ClientSocket, PeerSocket string
}

// StartEtcd starts etcd and waits until it serves. The caller closes it, after everything that uses it.
// The string is the endpoint for clients.
func StartEtcd(ctx context.Context, c EtcdConfig) (*embed.Etcd, string, error) {
	wal.SegmentSizeBytes = 4 << 20 // each of the two preallocated log files has 64 MB otherwise
	cfg := embed.NewConfig()
	cfg.Dir = c.Dir
	cfg.UnsafeNoFsync = true // a power cut may cost the data of a sandbox
	cfg.LogLevel = "error"
	cfg.LogOutputs = []string{c.LogFile}
	// A single member elects itself after one election timeout.
	cfg.TickMs, cfg.ElectionMs = 10, 50
	cfg.QuotaBackendBytes = 2 << 30
	client, peer := url.URL{Scheme: "unix", Path: c.ClientSocket}, url.URL{Scheme: "unix", Path: c.PeerSocket}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	cfg.InitialCluster = cfg.InitialClusterFromName(cfg.Name)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		return nil, "", err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, client.String(), nil
	case err = <-e.Err():
	case <-ctx.Done():
		err = ctx.Err()
	}
	e.Close()
	return nil, "", err
}
