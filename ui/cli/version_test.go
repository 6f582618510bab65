package cli

import "testing"

// TestDefaultImage: the tag is the version in the characters that tags allow.
func TestDefaultImage(t *testing.T) {
	defer func(v string) { buildVersion = v }(buildVersion)
	for v, want := range map[string]string{"v1.2.3": "lockstep:v1.2.3", "v1.2.3-rc.1+dirty": "lockstep:v1.2.3-rc.1_dirty", "(devel)": "lockstep:latest"} {
		if buildVersion = v; defaultImage() != want {
			t.Errorf("%s: %s, want %s", v, defaultImage(), want)
		}
	}
}
