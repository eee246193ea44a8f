// SPDX-License-Identifier: Apache-2.0

package certificate

import (
	"crypto/x509"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

var (
	start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hosts = []string{"reports.team.svc"}
)

func take(t *testing.T, m *material, at time.Time, want string) *material {
	t.Helper()
	next, name, err := decide(m, hosts, at)
	if err != nil {
		t.Fatal(err)
	}
	if name != want {
		t.Fatalf("at %s: step %q, want %q", at, name, want)
	}
	return next
}

// TestEachStepOfARotation goes through the rows in the order that a rotation takes them, with the last moment before each.
func TestEachStepOfARotation(t *testing.T) {
	m := take(t, nil, start, "begin")
	m = take(t, m, start.Add(60*24*time.Hour), "")
	m = take(t, m, start.Add(60*24*time.Hour+time.Second), "renew")
	at := start.Add(authorityLifetime * 2 / 3)
	m.leaf = take(t, &material{authority: m.authority, trusted: m.trusted}, at, "replace").leaf
	m = take(t, m, at, "")
	at = at.Add(time.Second)
	first := m.authority.Cert
	m = take(t, m, at, "announce")
	if len(m.trusted) != 2 || !m.trusted[0].Equal(m.authority.Cert) || !m.trusted[1].Equal(first) {
		t.Fatalf("the new authority is not the first of two")
	}
	m = take(t, m, at.Add(settleTime-time.Second), "")
	at = at.Add(settleTime)
	m = take(t, m, at, "sign")
	m = take(t, m, at.Add(settleTime-time.Second), "")
	m = take(t, m, at.Add(settleTime), "retire")
	if len(m.trusted) != 1 || m.trusted[0].Equal(first) {
		t.Error("the old authority is trusted on")
	}
	take(t, m, at.Add(settleTime), "")
}

func TestUnusableCertificateIsReplaced(t *testing.T) {
	good := take(t, nil, start, "begin")
	stranger := take(t, nil, start, "begin")
	for name, c := range map[string]struct {
		m    *material
		at   time.Time
		want string
	}{
		"Expired":          {good, start.Add(leafLifetime), "replace"},
		"AuthorityExpired": {good, start.Add(authorityLifetime), "begin"},
		"OfAStranger":      {&material{authority: good.authority, trusted: good.trusted, leaf: stranger.leaf}, start, "replace"},
		"Missing":          {&material{authority: good.authority, trusted: good.trusted}, start, "replace"},
		"ClockBehind":      {good, start.Add(-48 * time.Hour), ""},
	} {
		t.Run(name, func(t *testing.T) { take(t, c.m, c.at, c.want) })
	}
	if _, name, err := decide(good, []string{"other.team.svc"}, start); err != nil || name != "replace" {
		t.Errorf("for another host: step %q, %v", name, err)
	}
}

func TestUnreadableSecretsBlockNothing(t *testing.T) {
	m := take(t, nil, start, "begin")
	whole := &corev1.Secret{}
	fill(whole, m)
	if got := parse(whole); got == nil || got.leaf == nil || !got.leaf.Cert.Equal(m.leaf.Cert) || !got.authority.Cert.Equal(m.authority.Cert) {
		t.Fatal("what was written is not read")
	}
	for _, key := range []string{BundleKey, authorityKeyKey} {
		broken := whole.DeepCopy()
		broken.Data[key] = []byte("x")
		if parse(broken) != nil {
			t.Errorf("a Secret with a broken %s is used", key)
		}
	}
	broken := whole.DeepCopy()
	broken.Data[corev1.TLSPrivateKeyKey] = nil
	if got := parse(broken); got == nil || got.leaf != nil {
		t.Error("a certificate without its key is used, or its authority is lost")
	}
}

// pause is how far the time goes on: in quarters of the time to settle after a change, else in half days.
func pause(sinceChange time.Duration) time.Duration {
	if sinceChange < 3*settleTime {
		return settleTime / 4
	}
	return 12 * time.Hour
}

// TestClientsTrustEveryServedCertificate lets thirteen years pass. Servers and clients see the Secret late, by up to half of the
// time that a step has to settle: whatever certificate a server shows, a client that has read any bundle trusts it.
func TestClientsTrustEveryServedCertificate(t *testing.T) {
	type version struct {
		since time.Time
		m     *material
	}
	now := start
	history := []version{{now, take(t, nil, now, "begin")}}
	var taken []string
	changed := now
	for end := start.Add(13 * 365 * 24 * time.Hour); now.Before(end); now = now.Add(pause(now.Sub(changed))) {
		m, name, err := decide(history[len(history)-1].m, hosts, now)
		if err != nil {
			t.Fatal(err)
		}
		if name == "" && len(history) == 1 {
			continue
		}
		if name != "" {
			history = append(history, version{now, m})
			taken, changed = append(taken, name), now
		}
		for len(history) > 1 && history[1].since.Before(now.Add(-settleTime/2)) {
			history = history[1:]
		}
		for _, server := range history {
			for _, client := range history {
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(client.m.bundle())
				if _, err := server.m.leaf.Cert.Verify(x509.VerifyOptions{DNSName: hosts[0], Roots: roots, CurrentTime: now}); err != nil {
					t.Fatalf("%s, after %v: %v", now, taken, err)
				}
			}
		}
	}
	for _, want := range []string{"announce", "sign", "retire", "renew"} {
		if !slices.Contains(taken, want) {
			t.Errorf("%q was not taken in %v", want, taken)
		}
	}
}
