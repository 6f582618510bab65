package testcluster

import (
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
)

// Helm returns the path of the helm program, in the version that lockstep is built with. make test passes the path,
// because go takes longer to find it than most helm commands need.
func Helm(t testing.TB) string {
	t.Helper()
	path, err := helm()
	if err != nil {
		t.Fatalf("build helm: %v", err)
	}
	return path
}

var helm = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("TEST_HELM"); path != "" {
		return path, nil
	}
	path, err := exec.Command("go", "tool", "-n", "helm").Output()
	return strings.TrimSpace(string(path)), err
})
