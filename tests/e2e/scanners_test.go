// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strconv"
	"strings"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/google/go-cmp/cmp/cmpopts"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	executionv1 "github.com/scanyard/scanyard/apis/execution/v1"
	"github.com/scanyard/scanyard/apis/finding"
	"github.com/scanyard/scanyard/tests/gitrepo"
	"github.com/scanyard/scanyard/tests/scans"
	"github.com/scanyard/scanyard/tests/target"
)

// scanned runs a Scan to its good end and returns its findings, which are as many as
// its status tells, and its raw result, which is all that storage has beside them.
func scanned(ctx context.Context, s *executionv1.Scan, location string) (all []finding.Finding, raw []byte) {
	GinkgoHelper()
	got := done(ctx, s)
	all = findings(ctx, got)
	wantStats(got, all)
	wantStored(ctx, got, "findings.json", location)
	return all, object(ctx, got, location)
}

// wantStored holds the names of a Scan's stored objects.
func wantStored(ctx context.Context, s *executionv1.Scan, names ...string) {
	GinkgoHelper()
	slices.Sort(names)
	Expect(resultsOf(ctx, s)).To(BeComparableTo(names, cmpopts.EquateEmpty()), "stored objects")
}

// lines describes findings, sorted, each by some of its parts: name, category,
// severity, location, or an attribute.
func lines(all []finding.Finding, parts ...string) []string {
	out := make([]string, len(all))
	for i := range all {
		f := &all[i]
		var line []string
		for _, p := range parts {
			switch p {
			case "name":
				line = append(line, f.Name.String())
			case "category":
				line = append(line, f.Category.String())
			case "severity":
				line = append(line, f.Severity.String())
			case "location":
				line = append(line, f.Location.Or("none"))
			default:
				v, ok := f.Attributes.Get(p)
				if !ok {
					v = "absent"
				}
				line = append(line, fmt.Sprint(v))
			}
		}
		out[i] = strings.Join(line, " | ")
	}
	slices.Sort(out)
	return out
}

func wantLines(all []finding.Finding, want []string, parts ...string) {
	GinkgoHelper()
	slices.Sort(want)
	Expect(lines(all, parts...)).To(BeComparableTo(want), "findings by %s", strings.Join(parts, ", "))
}

// wantAmong is for scanners that find more with each version.
func wantAmong(all []finding.Finding, want []string, parts ...string) {
	GinkgoHelper()
	got := lines(all, parts...)
	for _, line := range want {
		Expect(got).To(ContainElement(line), "no finding is %q; there are:\n%s", line, strings.Join(got, "\n"))
	}
}

// keep returns the findings of a category.
func keep(all []finding.Finding, category string) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool { return f.Category.String() != category })
}

// files is a volume with texts, at a path of the scanner.
func files(ctx context.Context, s *executionv1.Scan, path string, texts map[string]string) {
	GinkgoHelper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-files"}, Data: texts}
	create(ctx, m)
	s.Spec.Volumes = append(s.Spec.Volumes, corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: m.Name}},
	}})
	s.Spec.VolumeMounts = append(s.Spec.VolumeMounts, corev1.VolumeMount{Name: "files", MountPath: path})
}

// webSite starts a web site for the test.
func webSite() *target.Web {
	GinkgoHelper()
	web := target.StartWeb()
	DeferCleanup(web.Close)
	return web
}

func expiredSite() *target.Web {
	GinkgoHelper()
	web, err := target.StartExpiredWeb()
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(web.Close)
	return web
}

// ftpLogin is what the FTP server takes.
const ftpUser, ftpPassword = "admin", "password1"

func ftpServer() *target.FTP {
	GinkgoHelper()
	ftp, err := target.StartFTP(ftpUser, ftpPassword)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = ftp.Close() })
	return ftp
}

func sshServer(ctx context.Context) *target.SSHD {
	GinkgoHelper()
	ssh, err := target.StartSSHD(ctx, w.tools.SSHD)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() {
		Expect(ssh.Close()).To(Succeed())
	})
	return ssh
}

var _ = Describe("Scanners", Label("scanners"), func() {
	// Goes through TLS too: cascading rules tell HTTPS by its tunnel.
	It("find services with nmap, through TLS too", Label("smoke"), func(ctx SpecContext) {
		web, tls, ftp, ssh := webSite(), expiredSite(), ftpServer(), sshServer(ctx)
		ns := namespace(ctx)
		chart(ctx, "nmap", ns, scanner(ctx, "scanner-nmap"))
		ports := fmt.Sprintf("%d,%d,%d,%d", web.Port, tls.Port, ftp.Port, ssh.Port)
		all, _ := scanned(ctx, scans.New(ns, "services", "nmap", "-n", "-sV", "-p", ports, web.Host), "nmap-results.xml")
		wantLines(keep(all, "Open Port"), []string{
			fmt.Sprintf("Open Port: %d (http) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | nginx | none | open", web.Port),
			fmt.Sprintf("Open Port: %d (http) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | nginx | ssl | open", tls.Port),
			fmt.Sprintf("Open Port: %d (ftp) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | vsftpd | none | open", ftp.Port),
			fmt.Sprintf("Open Port: %d (ssh) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | OpenSSH | none | open", ssh.Port),
		}, "name", "severity", "location", "serviceProduct", "tunnel", "state")
		wantLines(keep(all, "Host"), []string{"Host: 127.0.0.1 | INFORMATIONAL | 127.0.0.1 | [127.0.0.1]"}, "name", "severity", "location", "ip_addresses")
	})

	It("find ports with nmap for a clusterWide Scan", func(ctx SpecContext) {
		clusterCharts(ctx)
		web := webSite()
		s := onlyHooks(scans.NewClusterWide(namespace(ctx), "wide", "nmap", "-p", strconv.Itoa(web.Port), web.Host), "")
		all, _ := scanned(ctx, s, "nmap-results.xml")
		wantLines(keep(all, "Open Port"), []string{fmt.Sprintf("%d | open", web.Port)}, "port", "state")
	})

	It("find a weak password with ncrack", func(ctx SpecContext) {
		ftp, ns := ftpServer(), namespace(ctx)
		chart(ctx, "ncrack", ns, scanner(ctx, "scanner-ncrack"))
		all, _ := scanned(ctx, ncrackScan(ctx, ns, ftp), "ncrack-results.xml")
		where := fmt.Sprintf("ftp://%s:%d", ftp.Host, ftp.Port)
		wantLines(all, []string{
			fmt.Sprintf("Credentials for Service %s discovered via bruteforce. | Discovered Credentials | HIGH | %[1]s | %s | %s | %d", where, ftpUser, ftpPassword, ftp.Port),
		}, "name", "category", "severity", "location", "username", "password", "port")
	})

	// Gives the parser a public key by the chart's value, and
	// opens the password with the private one.
	It("encrypt what ncrack has found with the public key of the chart's value", func(ctx SpecContext) {
		ftp, ns := ftpServer(), namespace(ctx)
		identity, err := age.GenerateX25519Identity()
		Expect(err).NotTo(HaveOccurred())
		create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ncrack-key"},
			StringData: map[string]string{"age.pub": identity.Recipient().String() + "\n"},
		})
		values := scanner(ctx, "scanner-ncrack")
		values["encryptPasswords"] = map[string]any{"existingSecret": "ncrack-key", "key": "age.pub"}
		chart(ctx, "ncrack", ns, values)
		s := ncrackScan(ctx, ns, ftp)
		all, _ := scanned(ctx, s, "ncrack-results.xml")
		wantLines(all, []string{"Discovered Credentials | HIGH | " + ftpUser}, "category", "severity", "username")
		if CurrentSpecReport().Failed() {
			return
		}
		text := all[0].Attributes.Text("password").String()
		Expect(text).NotTo(ContainSubstring(ftpPassword), "the finding shows the password")
		plain, err := age.Decrypt(armor.NewReader(strings.NewReader(text)), identity)
		Expect(err).NotTo(HaveOccurred(), "decrypt %q", text)
		var b bytes.Buffer
		if _, err := b.ReadFrom(plain); err != nil || b.String() != ftpPassword {
			Fail(fmt.Sprintf("the finding holds the password %q (%v), want %q", b.String(), err, ftpPassword))
		}
	})

	It("write no password of ncrack in the clear because a key is wrong", func(ctx SpecContext) {
		ftp, ns := ftpServer(), namespace(ctx)
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ncrack-key"}, StringData: map[string]string{"public.key": "-----BEGIN PUBLIC KEY-----\n"}})
		chart(ctx, "ncrack", ns, map[string]any{"encryptPasswords": map[string]any{"existingSecret": "ncrack-key"}})
		got := errored(ctx, ncrackScan(ctx, ns, ftp), executionv1.ReasonParserFailed, "/secrets/public.key")
		wantStored(ctx, got, "ncrack-results.xml")
	})

	It("know a web server with whatweb", func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "whatweb", ns, scanner(ctx, "scanner-whatweb"))
		wantWhatWeb(ctx, scans.New(ns, "site", "whatweb", web.URL), web)
	})

	It("know a web server with whatweb for a clusterWide Scan", func(ctx SpecContext) {
		clusterCharts(ctx)
		web := webSite()
		wantWhatWeb(ctx, onlyHooks(scans.NewClusterWide(namespace(ctx), "site", "whatweb", web.URL), ""), web)
	})

	It("find pages with ffuf", func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "ffuf", ns, scanner(ctx, "scanner-ffuf"))
		s := scans.New(ns, "pages", "ffuf", "-u", web.URL+"/FUZZ", "-w", "/words/wordlist.txt")
		files(ctx, s, "/words", map[string]string{"wordlist.txt": "about\nadmin/\naccount\nbackup.zip\n.git/HEAD\n"})
		all, _ := scanned(ctx, s, "ffuf-results.json")
		wantLines(all, []string{
			"Webserver Content | INFORMATIONAL | " + web.URL + "/about | 200 | ",
			"Webserver Content | INFORMATIONAL | " + web.URL + "/admin/ | 200 | ",
			"Webserver Content | INFORMATIONAL | " + web.URL + "/account | 302 | /about",
		}, "category", "severity", "location", "httpStatus", "redirectlocation")
	})

	It("take a picture of a page with screenshooter", func(ctx SpecContext) {
		web, ns := webSite(), namespace(ctx)
		chart(ctx, "screenshooter", ns, scanner(ctx, "scanner-screenshooter"))
		all, raw := scanned(ctx, scans.New(ns, "page", "screenshooter", web.URL), "screenshot.png")
		wantLines(all, []string{
			fmt.Sprintf("Screenshot for %s | Screenshot | INFORMATIONAL | %[1]s", web.URL),
		}, "name", "category", "severity", "location")
		if len(all) == 1 && !strings.Contains(all[0].Attributes.Text("downloadLink").String(), "/screenshot.png?") {
			Fail("the finding has no link to the picture")
		}
		picture, err := png.Decode(bytes.NewReader(raw))
		Expect(err).NotTo(HaveOccurred(), "the result of %d bytes is no PNG", len(raw))
		if size := picture.Bounds().Size(); size.X < 600 || size.Y < 400 {
			Fail(fmt.Sprintf("the picture has %d by %d pixels", size.X, size.Y))
		}
		// The page is dark blue with white letters.
		colours := coloursOf(picture)
		background, letters := color.RGBA{0, 0x33, 0x66, 0xff}, color.RGBA{0xff, 0xff, 0xff, 0xff}
		if colours[background] < colours[letters] || colours[letters] == 0 {
			Fail(fmt.Sprintf("the picture has %d colours, %d pixels of the background's and %d of the letters'", len(colours), colours[background], colours[letters]))
		}
	})

	It("find a credential in a repository with gitleaks", func(ctx SpecContext) {
		repo, err := gitrepo.Start(ctx, GinkgoT().TempDir())
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(repo.Close)
		ns := namespace(ctx)
		chart(ctx, "gitleaks", ns, nil)
		s := scans.New(ns, "leaks", "gitleaks", "--source", "/repo")
		mount := corev1.VolumeMount{Name: "repo", MountPath: "/repo"}
		s.Spec.Volumes = []corev1.Volume{{Name: "repo"}}
		s.Spec.VolumeMounts = []corev1.VolumeMount{mount}
		s.Spec.InitContainers = []corev1.Container{{
			Name: "clone", Image: "docker.io/alpine/git", Command: []string{"git", "clone", "--quiet", repo.URL, "/repo"}, VolumeMounts: []corev1.VolumeMount{mount},
		}}
		all, _ := scanned(ctx, s, "report.json")
		wantLines(all, []string{"Potential Secret | MEDIUM | " + repo.Secret + " | " + repo.File}, "category", "severity", "offender", "file")
	})

	It("judge a certificate with testssl.sh", func(ctx SpecContext) {
		web, ns := expiredSite(), namespace(ctx)
		// Name servers are not asked: where they do not answer, testssl.sh would wait for minutes.
		chart(ctx, "testssl", ns, map[string]any{"scanner": map[string]any{"env": []any{map[string]any{"name": "NXCONNECT", "value": "127.0.0.1:0"}}}})
		parameters := []string{"--nodns", "none", "--protocols", "--server-defaults", fmt.Sprintf("%s:%d", web.Host, web.Port)}
		all, _ := scanned(ctx, scans.New(ns, "certificate", "testssl", parameters...), "testssl-results.json")
		where := fmt.Sprintf("%s:%d", web.Host, web.Port)
		wantAmong(all, []string{
			"cert_chain_of_trust | Invalid Certificate | HIGH | " + where,
			"cert_expirationStatus | Invalid Certificate | HIGH | " + where,
		}, "name", "category", "severity", "location")
		wantLines(keep(all, "TLS Service Info"), []string{"TLS Service | INFORMATIONAL | " + where + " | [TLS 1.2 TLS 1.3]"}, "name", "severity", "location", "tls_versions")
	})

	// Runs the project's own scanner against answers
	// as GitHub documents them.
	It("list an organisation's repositories with git-repo-scanner", func(ctx SpecContext) {
		api := gitrepo.StartAPI("example-org", "shop", "attic")
		DeferCleanup(api.Close)
		ns := namespace(ctx)
		chart(ctx, "git-repo-scanner", ns, scanner(ctx, "scanner-git-repo-scanner"))
		create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "github-access"}, StringData: map[string]string{"token": api.Token}})
		s := scans.New(ns, "repositories", "git-repo-scanner", "--git-type", "github", "--url", api.URL, "--organization", "example-org", "--access-token", "$(GITHUB_TOKEN)")
		s.Spec.Env = []corev1.EnvVar{{Name: "GITHUB_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
			LocalObjectReference: corev1.LocalObjectReference{Name: "github-access"}, Key: "token",
		}}}}
		all, _ := scanned(ctx, s, "git-repo-scanner-findings.json")
		wantLines(all, []string{
			"GitHub Repo | Git Repository | INFORMATIONAL | example-org/shop | public | false",
			"GitHub Repo | Git Repository | INFORMATIONAL | example-org/attic | public | true",
		}, "name", "category", "severity", "full_name", "visibility", "archived")
	})
})

// ncrackScan brings its word lists as the chart's example does.
func ncrackScan(ctx context.Context, ns string, ftp *target.FTP) *executionv1.Scan {
	GinkgoHelper()
	s := scans.New(ns, "weak", "ncrack", "-U", "/ncrack/users.txt", "-P", "/ncrack/passwords.txt", "-p", fmt.Sprintf("ftp:%d", ftp.Port), ftp.Host)
	files(ctx, s, "/ncrack", map[string]string{"users.txt": "root\n" + ftpUser + "\n", "passwords.txt": "123456\n" + ftpPassword + "\nletmein\n"})
	return s
}

func wantWhatWeb(ctx context.Context, s *executionv1.Scan, web *target.Web) {
	GinkgoHelper()
	all, _ := scanned(ctx, s, "whatweb-results.json")
	wantLines(all, []string{
		fmt.Sprintf("%s | WEB APPLICATION | INFORMATIONAL | %[1]s | nginx/1.29.0 | true | [%s]", web.URL, web.Host),
	}, "name", "category", "severity", "location", "HTTPServer", "HTML5", "ip_addresses")
	if len(all) == 1 && all[0].Description.Or("") != target.Title {
		Fail(fmt.Sprintf("description %q, want the page's title %q", all[0].Description.Or(""), target.Title))
	}
}

func coloursOf(picture image.Image) map[color.RGBA]int {
	out := map[color.RGBA]int{}
	b := picture.Bounds()
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			if c, ok := color.RGBAModel.Convert(picture.At(x, y)).(color.RGBA); ok {
				out[c]++
			}
		}
	}
	return out
}
