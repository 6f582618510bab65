package outage

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"lockstep/kube"
	"lockstep/kube/e2e/rig"
)

// bufferWhole makes a proxy buffer complete responses.
func bufferWhole(resp *http.Response) error {
	all, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	resp.Body = io.NopCloser(bytes.NewReader(all))
	return nil
}

// bufferChunks makes a proxy send responses in chunks of a size.
func bufferChunks(size int) func(*http.Response) error {
	return func(resp *http.Response) error {
		resp.Body = &chunks{ReadCloser: resp.Body, size: size}
		return nil
	}
}

type chunks struct {
	io.ReadCloser
	size int
	have bytes.Buffer
	err  error
}

func (c *chunks) Read(p []byte) (int, error) {
	if c.have.Len() == 0 && c.err == nil {
		_, c.err = io.CopyN(&c.have, c.ReadCloser, int64(c.size))
	}
	if c.have.Len() == 0 {
		return 0, c.err
	}
	return c.have.Read(p)
}

// TestBufferingProxy: behind a proxy that buffers responses, watches deliver nothing until they end. A run still detects
// changes in time.
func TestBufferingProxy(t *testing.T) {
	t.Parallel()
	for name, modify := range map[string]func(*http.Response) error{"whole": bufferWhole, "chunks": bufferChunks(16 << 10)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := rig.New(t)
			r.Client = r.ConnectThrough(rig.Interceptor{ModifyResponse: modify}, "")
			chart := rig.ChartOf(t, rig.Deployment("db", rig.Group("db"), "1s"), rig.Job("seed", rig.Group("seed", "db"), "10ms"))
			r.MustRun(r.Install("plain", rig.UseChart(chart, func(i *kube.Deploy) { i.WaitForJobs, i.ReadinessTimeout = kube.AllJobs, 20*time.Second })))
			r.MustRun(r.Uninstall())
			if left := r.Labelled(); len(left) > 0 {
				t.Errorf("not removed: %v", left)
			}
		})
	}
}
