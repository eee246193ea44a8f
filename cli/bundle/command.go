// SPDX-License-Identifier: Apache-2.0

package bundle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/scanyard/scanyard/cli/session"
)

// bundleOptions are the flags of support-bundle.
type bundleOptions struct {
	session           *session.Session
	path              string
	operatorNamespace string
	scan              string
	most, lines       int64
}

// NewSupportBundleCommand makes the command support-bundle.
func NewSupportBundleCommand(s *session.Session) *cobra.Command {
	b := &bundleOptions{session: s}
	cmd := &cobra.Command{
		Use:   "support-bundle",
		Short: "Pack what a helper needs to see, without secrets",
		Long: `Pack the scans, their types, hooks and rules, Jobs, pods, Events and the ends of logs of
the namespace into a file, together with the operator's Deployment and log where you may
see them.

Secrets, ConfigMaps and results are never read. Values of environment variables, of HTTP
headers and of annotations of others, queries and users of URLs, and what looks like a
password, a token or a key, by its name or by its form, are replaced by REDACTED; logs of
scanners are left out, since they print what they find. Look through the file all the same
before you give it away: it contains names of targets, and a secret may look like any word.`,
		Example: `  {{program}} support-bundle -n team-blue
  {{program}} support-bundle --scan nmap -O nmap.tar.gz`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return b.run(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&b.path, "output-file", "O", "", "file to write (default: scanyard-support-TIME.tar.gz in this folder)")
	flags.StringVar(&b.operatorNamespace, "operator-namespace", "scanyard-system", "where the operator is")
	flags.StringVar(&b.scan, "scan", "", "of the scans only this one")
	flags.Int64Var(&b.most, "max-objects", 500, "how many objects of a kind are packed at most")
	flags.Int64Var(&b.lines, "max-lines", 2000, "how many lines of a log are packed at most")
	return cmd
}

func (b *bundleOptions) run(ctx context.Context) (err error) {
	s := b.session
	client, namespace, err := s.Connect()
	if err != nil {
		return err
	}
	if b.scan != "" {
		if _, err := s.Scan(ctx, client, namespace, b.scan); err != nil {
			return err
		}
	}
	c := &collector{client: client, now: s.Now(), most: b.most, lines: b.lines, scan: b.scan}
	if c.pods, err = s.Clientset(); err != nil {
		return err
	}
	server := "unknown"
	if v, err := c.pods.Discovery().ServerVersion(); err == nil { // a bundle without the version is still of use
		server = v.GitVersion
	}
	versions := fmt.Sprintf("scanyard %s (%s, %s/%s)\nkubernetes %s\n", s.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH, server)
	path := b.path
	if path == "" {
		path = "scanyard-support-" + s.Now().UTC().Format("20060102-150405") + ".tar.gz"
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%s exists: name another file with -O", path)
	}
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	err = errors.Join(c.write(ctx, out, namespace, b.operatorNamespace, versions), out.Close())
	if err != nil {
		return errors.Join(s.Explain(err), os.Remove(path)) // half a bundle is of no use
	}
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("write the bundle: %w", err)
	}
	fmt.Fprintln(s.Out, c.summary(path, info.Size()))
	return nil
}
