package plan

import (
	"strings"
	"testing"
)

func TestStoredKeys(t *testing.T) { // R3
	for _, key := range TwoSlashKeys() {
		stored := StoredKey(key)
		if strings.Count(key, "/") != 2 || strings.Count(stored, "/") != 1 || StoredKey(stored) != stored {
			t.Errorf("%s is stored as %s", key, stored)
		}
		if got, ok := Annotation(map[string]string{stored: "v"}, key); got != "v" || !ok {
			t.Errorf("%s is not found as %s", key, stored)
		}
		if got, _ := Annotation(map[string]string{stored: "old", key: "v"}, key); got != "v" {
			t.Errorf("%s does not take precedence", key)
		}
	}
	if got := StoredKey("other.example/depends-on/x"); got != "other.example/depends-on/x" {
		t.Errorf("got %s for another key", got)
	}
}
