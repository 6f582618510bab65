package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Headers of Standard Webhooks (standardwebhooks.com).
const (
	headerID        = "Webhook-Id"
	headerTimestamp = "Webhook-Timestamp"
	headerSignature = "Webhook-Signature"
)

// post posts a notice, and tries again unless the notifier is closing.
func (t *target) post(ctx context.Context, n Notice) error {
	body, err := t.encode(n)
	if err != nil {
		return err
	}
	for try := 1; ; try++ {
		retry, err := t.postOnce(ctx, n.ID, body)
		if err == nil || !retry || try == tries {
			return err
		}
		select {
		case <-t.closing:
			return err
		case <-ctx.Done():
			return err
		case <-time.After(retryPause):
		}
	}
}

// postOnce sends a request. retry says whether another one may succeed. The error does not have the URL.
func (t *target) postOnce(ctx context.Context, id string, body []byte) (retry bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url.String(), bytes.NewReader(body))
	if err != nil {
		return false, errors.New("invalid URL")
	}
	req.Header.Set("Content-Type", t.kind)
	if t.key != nil {
		now := strconv.FormatInt(time.Now().Unix(), 10)
		req.Header.Set(headerID, id)
		req.Header.Set(headerTimestamp, now)
		req.Header.Set(headerSignature, sign(t.key, id, now, body))
	}
	resp, err := t.client.Do(req)
	if err != nil {
		if sent, ok := errors.AsType[*url.Error](err); ok {
			err = sent.Err
		}
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			err = errors.New("no answer")
		}
		return true, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 == 2 {
		return false, nil
	}
	return resp.StatusCode >= 500 || resp.StatusCode == http.StatusTooManyRequests, errors.New(resp.Status)
}

// sign returns the signature of a message by Standard Webhooks: HMAC-SHA256 of "ID.TIMESTAMP.BODY".
func sign(key []byte, id, timestamp string, body []byte) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(id + "." + timestamp + "."))
	mac.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// minKey is in bytes.
const minKey = 16

// parseKey reads a key: "whsec_" and base64, as Standard Webhooks writes it, or any other text.
func parseKey(text string) (key []byte, err error) {
	text = strings.TrimSpace(text)
	key = []byte(text)
	if encoded, ok := strings.CutPrefix(text, "whsec_"); ok {
		if key, err = base64.StdEncoding.DecodeString(encoded); err != nil {
			return nil, errors.New("what follows whsec_ is not base64") // the error of base64 is no help
		}
	}
	if len(key) < minKey {
		return nil, errors.New("the key is too short: use at least 16 bytes")
	}
	return key, nil
}
