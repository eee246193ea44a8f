// SPDX-License-Identifier: Apache-2.0

package notification

import (
	"cmp"
	"os"
	"path/filepath"
	"testing"

	"github.com/scanyard/scanyard/tests/testcluster/mailbox"
)

// testMailbox is a mail server for one test.
type testMailbox struct {
	*mailbox.Mailbox

	caFile string // file with the server's certificate
}

// newMailbox starts a mail server, by default for the host mail.example.com. It ends with the test.
func newMailbox(t *testing.T, o mailbox.Options) *testMailbox {
	t.Helper()
	o.Host = cmp.Or(o.Host, "mail.example.com")
	m, err := mailbox.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, m.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	return &testMailbox{m, file}
}
