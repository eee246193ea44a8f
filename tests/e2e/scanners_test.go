// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"slices"
	"strconv"
	"strings"
	"testing"

	"filippo.io/age"
	"filippo.io/age/armor"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	batchv1 "k8s.io/api/batch/v1"
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
func scanned(t *testing.T, s *executionv1.Scan, location string) (all []finding.Finding, raw []byte) {
	t.Helper()
	got := done(t, s)
	all = findings(t, got)
	wantStats(t, got, all)
	wantStored(t, got, "findings.json", location)
	return all, object(t, got, location)
}

// wantStored holds the names of a Scan's stored objects.
func wantStored(t *testing.T, s *executionv1.Scan, names ...string) {
	t.Helper()
	slices.Sort(names)
	if diff := cmp.Diff(names, stored(t, s), cmpopts.EquateEmpty()); diff != "" {
		t.Fatalf("stored objects (-want +got):\n%s", diff)
	}
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

func wantLines(t *testing.T, all []finding.Finding, want []string, parts ...string) {
	t.Helper()
	slices.Sort(want)
	if diff := cmp.Diff(want, lines(all, parts...)); diff != "" {
		t.Errorf("findings by %s (-want +got):\n%s", strings.Join(parts, ", "), diff)
	}
}

// wantAmong is for scanners that find more with each version.
func wantAmong(t *testing.T, all []finding.Finding, want []string, parts ...string) {
	t.Helper()
	got := lines(all, parts...)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no finding is %q; there are:\n%s", line, strings.Join(got, "\n"))
		}
	}
}

// keep returns the findings of a category.
func keep(all []finding.Finding, category string) []finding.Finding {
	return slices.DeleteFunc(slices.Clone(all), func(f finding.Finding) bool { return f.Category.String() != category })
}

// files is a volume with texts, at a path of the scanner.
func files(t *testing.T, s *executionv1.Scan, path string, texts map[string]string) {
	t.Helper()
	m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name + "-files"}, Data: texts}
	create(t, m)
	s.Spec.Volumes = append(s.Spec.Volumes, corev1.Volume{Name: "files", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: m.Name}},
	}})
	s.Spec.VolumeMounts = append(s.Spec.VolumeMounts, corev1.VolumeMount{Name: "files", MountPath: path})
}

// webSite starts a web site for the test.
func webSite(t *testing.T) *target.Web {
	t.Helper()
	web := target.StartWeb()
	t.Cleanup(web.Close)
	return web
}

func expiredSite(t *testing.T) *target.Web {
	t.Helper()
	web, err := target.StartExpiredWeb()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(web.Close)
	return web
}

// ftpLogin is what the FTP server takes.
const ftpUser, ftpPassword = "admin", "password1"

func ftpServer(t *testing.T) *target.FTP {
	t.Helper()
	ftp, err := target.StartFTP(ftpUser, ftpPassword)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ftp.Close() })
	return ftp
}

func sshServer(t *testing.T) *target.SSHD {
	t.Helper()
	ssh, err := target.StartSSHD(t.Context(), w.tools.SSHD)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ssh.Close(); err != nil {
			t.Error(err)
		}
	})
	return ssh
}

// TestNmapFindsServices goes through TLS too: cascading rules tell HTTPS by its tunnel.
func TestNmapFindsServices(t *testing.T) {
	t.Parallel()
	web, tls, ftp, ssh := webSite(t), expiredSite(t), ftpServer(t), sshServer(t)
	ns := namespace(t)
	chart(t, "nmap", ns, scanner(t, "scanner-nmap"))
	ports := fmt.Sprintf("%d,%d,%d,%d", web.Port, tls.Port, ftp.Port, ssh.Port)
	all, _ := scanned(t, scans.New(ns, "services", "nmap", "-n", "-sV", "-p", ports, web.Host), "nmap-results.xml")
	wantLines(t, keep(all, "Open Port"), []string{
		fmt.Sprintf("Open Port: %d (http) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | nginx | none | open", web.Port),
		fmt.Sprintf("Open Port: %d (http) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | nginx | ssl | open", tls.Port),
		fmt.Sprintf("Open Port: %d (ftp) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | vsftpd | none | open", ftp.Port),
		fmt.Sprintf("Open Port: %d (ssh) | INFORMATIONAL | tcp://127.0.0.1:%[1]d | OpenSSH | none | open", ssh.Port),
	}, "name", "severity", "location", "serviceProduct", "tunnel", "state")
	wantLines(t, keep(all, "Host"), []string{"Host: 127.0.0.1 | INFORMATIONAL | 127.0.0.1 | [127.0.0.1]"}, "name", "severity", "location", "ip_addresses")
}

func TestNmapClusterWide(t *testing.T) {
	t.Parallel()
	clusterCharts(t)
	web := webSite(t)
	s := onlyHooks(scans.NewClusterWide(namespace(t), "wide", "nmap", "-p", strconv.Itoa(web.Port), web.Host), "")
	all, _ := scanned(t, s, "nmap-results.xml")
	wantLines(t, keep(all, "Open Port"), []string{fmt.Sprintf("%d | open", web.Port)}, "port", "state")
}

// ncrackScan brings its word lists as the chart's example does.
func ncrackScan(t *testing.T, ns string, ftp *target.FTP) *executionv1.Scan {
	t.Helper()
	s := scans.New(ns, "weak", "ncrack", "-U", "/ncrack/users.txt", "-P", "/ncrack/passwords.txt", "-p", fmt.Sprintf("ftp:%d", ftp.Port), ftp.Host)
	files(t, s, "/ncrack", map[string]string{"users.txt": "root\n" + ftpUser + "\n", "passwords.txt": "123456\n" + ftpPassword + "\nletmein\n"})
	return s
}

func TestNcrackFindsAWeakPassword(t *testing.T) {
	t.Parallel()
	ftp, ns := ftpServer(t), namespace(t)
	chart(t, "ncrack", ns, scanner(t, "scanner-ncrack"))
	all, _ := scanned(t, ncrackScan(t, ns, ftp), "ncrack-results.xml")
	where := fmt.Sprintf("ftp://%s:%d", ftp.Host, ftp.Port)
	wantLines(t, all, []string{
		fmt.Sprintf("Credentials for Service %s discovered via bruteforce. | Discovered Credentials | HIGH | %[1]s | %s | %s | %d", where, ftpUser, ftpPassword, ftp.Port),
	}, "name", "category", "severity", "location", "username", "password", "port")
}

// TestNcrackEncryptsPasswords gives the parser a public key by the chart's value, and
// opens the password with the private one.
func TestNcrackEncryptsPasswords(t *testing.T) {
	t.Parallel()
	ftp, ns := ftpServer(t), namespace(t)
	identity, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	create(t, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ncrack-key"},
		StringData: map[string]string{"age.pub": identity.Recipient().String() + "\n"},
	})
	values := scanner(t, "scanner-ncrack")
	values["encryptPasswords"] = map[string]any{"existingSecret": "ncrack-key", "key": "age.pub"}
	chart(t, "ncrack", ns, values)
	s := ncrackScan(t, ns, ftp)
	all, _ := scanned(t, s, "ncrack-results.xml")
	wantLines(t, all, []string{"Discovered Credentials | HIGH | " + ftpUser}, "category", "severity", "username")
	if t.Failed() {
		return
	}
	text := all[0].Attributes.Text("password").String()
	if strings.Contains(text, ftpPassword) {
		t.Error("the finding shows the password")
	}
	plain, err := age.Decrypt(armor.NewReader(strings.NewReader(text)), identity)
	if err != nil {
		t.Fatalf("decrypt %q: %v", text, err)
	}
	var b bytes.Buffer
	if _, err := b.ReadFrom(plain); err != nil || b.String() != ftpPassword {
		t.Errorf("the finding holds the password %q (%v), want %q", b.String(), err, ftpPassword)
	}
}

// TestNcrackWithoutItsKeyFails: passwords are not written in the clear because a key
// is wrong.
func TestNcrackWithoutItsKeyFails(t *testing.T) {
	t.Parallel()
	ftp, ns := ftpServer(t), namespace(t)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ncrack-key"}, StringData: map[string]string{"public.key": "-----BEGIN PUBLIC KEY-----\n"}})
	chart(t, "ncrack", ns, map[string]any{"encryptPasswords": map[string]any{"existingSecret": "ncrack-key"}})
	got := errored(t, ncrackScan(t, ns, ftp), executionv1.ReasonParserFailed, "/secrets/public.key")
	wantStored(t, got, "ncrack-results.xml")
}

func wantWhatWeb(t *testing.T, s *executionv1.Scan, web *target.Web) {
	t.Helper()
	all, _ := scanned(t, s, "whatweb-results.json")
	wantLines(t, all, []string{
		fmt.Sprintf("%s | WEB APPLICATION | INFORMATIONAL | %[1]s | nginx/1.29.0 | true | [%s]", web.URL, web.Host),
	}, "name", "category", "severity", "location", "HTTPServer", "HTML5", "ip_addresses")
	if len(all) == 1 && all[0].Description.Or("") != target.Title {
		t.Errorf("description %q, want the page's title %q", all[0].Description.Or(""), target.Title)
	}
}

func TestWhatWebKnowsTheServer(t *testing.T) {
	t.Parallel()
	web, ns := webSite(t), namespace(t)
	chart(t, "whatweb", ns, scanner(t, "scanner-whatweb"))
	wantWhatWeb(t, scans.New(ns, "site", "whatweb", web.URL), web)
}

func TestWhatWebClusterWide(t *testing.T) {
	t.Parallel()
	clusterCharts(t)
	web := webSite(t)
	wantWhatWeb(t, onlyHooks(scans.NewClusterWide(namespace(t), "site", "whatweb", web.URL), ""), web)
}

func TestFfufFindsPages(t *testing.T) {
	t.Parallel()
	web, ns := webSite(t), namespace(t)
	chart(t, "ffuf", ns, scanner(t, "scanner-ffuf"))
	s := scans.New(ns, "pages", "ffuf", "-u", web.URL+"/FUZZ", "-w", "/words/wordlist.txt")
	files(t, s, "/words", map[string]string{"wordlist.txt": "about\nadmin/\naccount\nbackup.zip\n.git/HEAD\n"})
	all, _ := scanned(t, s, "ffuf-results.json")
	wantLines(t, all, []string{
		"Webserver Content | INFORMATIONAL | " + web.URL + "/about | 200 | ",
		"Webserver Content | INFORMATIONAL | " + web.URL + "/admin/ | 200 | ",
		"Webserver Content | INFORMATIONAL | " + web.URL + "/account | 302 | /about",
	}, "category", "severity", "location", "httpStatus", "redirectlocation")
}

// TestScreenshooterTakesAPicture looks at the picture that storage has.
func TestScreenshooterTakesAPicture(t *testing.T) {
	t.Parallel()
	web, ns := webSite(t), namespace(t)
	chart(t, "screenshooter", ns, scanner(t, "scanner-screenshooter"))
	all, raw := scanned(t, scans.New(ns, "page", "screenshooter", web.URL), "screenshot.png")
	wantLines(t, all, []string{
		fmt.Sprintf("Screenshot for %s | Screenshot | INFORMATIONAL | %[1]s", web.URL),
	}, "name", "category", "severity", "location")
	if len(all) == 1 && !strings.Contains(all[0].Attributes.Text("downloadLink").String(), "/screenshot.png?") {
		t.Error("the finding has no link to the picture")
	}
	picture, err := png.Decode(bytes.NewReader(raw))
	if err != nil {
		t.Fatalf("the result of %d bytes is no PNG: %v", len(raw), err)
	}
	if size := picture.Bounds().Size(); size.X < 600 || size.Y < 400 {
		t.Errorf("the picture has %d by %d pixels", size.X, size.Y)
	}
	// The page is dark blue with white letters.
	colours := coloursOf(picture)
	background, letters := color.RGBA{0, 0x33, 0x66, 0xff}, color.RGBA{0xff, 0xff, 0xff, 0xff}
	if colours[background] < colours[letters] || colours[letters] == 0 {
		t.Errorf("the picture has %d colours, %d pixels of the background's and %d of the letters'", len(colours), colours[background], colours[letters])
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

func TestGitleaksFindsCredential(t *testing.T) {
	t.Parallel()
	repo, err := gitrepo.Start(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(repo.Close)
	ns := namespace(t)
	chart(t, "gitleaks", ns, nil)
	s := scans.New(ns, "leaks", "gitleaks", "--source", "/repo")
	mount := corev1.VolumeMount{Name: "repo", MountPath: "/repo"}
	s.Spec.Volumes = []corev1.Volume{{Name: "repo"}}
	s.Spec.VolumeMounts = []corev1.VolumeMount{mount}
	s.Spec.InitContainers = []corev1.Container{{
		Name: "clone", Image: "docker.io/alpine/git", Command: []string{"git", "clone", "--quiet", repo.URL, "/repo"}, VolumeMounts: []corev1.VolumeMount{mount},
	}}
	all, _ := scanned(t, s, "report.json")
	wantLines(t, all, []string{"Potential Secret | MEDIUM | " + repo.Secret + " | " + repo.File}, "category", "severity", "offender", "file")
}

// testSSL is what a user writes to have a scanner that no chart brings: a ScanType and
// a ParseDefinition, for a result type of the project's parser.
func testSSL(ns string) (*executionv1.ScanType, *executionv1.ParseDefinition) {
	const result = "/home/securecodebox/testssl-results.json"
	kind := &executionv1.ScanType{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "testssl"}}
	kind.Spec.ExtractResults = executionv1.ExtractResults{Type: "testssl-json", Location: result}
	kind.Spec.JobTemplate = batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{
			Name: "testssl", Image: "docker.io/drwetter/testssl.sh:3.2",
			// It tells by its exit code how bad things are.
			Command: []string{"/bin/sh", "-c", `testssl.sh --quiet --warnings off --color 0 --jsonfile ` + result + ` "$@" || test -s ` + result, "testssl.sh"},
		}},
	}}}}
	return kind, parser(ns, "testssl-json")
}

func TestTestSSLOfAUsersScanType(t *testing.T) {
	t.Parallel()
	web, ns := expiredSite(t), namespace(t)
	kind, definition := testSSL(ns)
	create(t, kind, definition)
	all, _ := scanned(t, scans.New(ns, "certificate", "testssl", "--protocols", "--server-defaults", fmt.Sprintf("%s:%d", web.Host, web.Port)), "testssl-results.json")
	where := fmt.Sprintf("%s:%d", web.Host, web.Port)
	wantAmong(t, all, []string{
		"cert_chain_of_trust | Invalid Certificate | HIGH | " + where,
		"cert_expirationStatus | Invalid Certificate | HIGH | " + where,
	}, "name", "category", "severity", "location")
	wantLines(t, keep(all, "TLS Service Info"), []string{"TLS Service | INFORMATIONAL | " + where + " | [TLS 1.2 TLS 1.3]"}, "name", "severity", "location", "tls_versions")
}

// TestGitRepoScannerListsAnOrganisation runs the project's own scanner against answers
// as GitHub documents them.
func TestGitRepoScannerListsAnOrganisation(t *testing.T) {
	t.Parallel()
	api := gitrepo.StartAPI("example-org", "shop", "attic")
	t.Cleanup(api.Close)
	ns := namespace(t)
	chart(t, "git-repo-scanner", ns, scanner(t, "scanner-git-repo-scanner"))
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "github-access"}, StringData: map[string]string{"token": api.Token}})
	s := scans.New(ns, "repositories", "git-repo-scanner", "--git-type", "github", "--url", api.URL, "--organization", "example-org", "--access-token", "$(GITHUB_TOKEN)")
	s.Spec.Env = []corev1.EnvVar{{Name: "GITHUB_TOKEN", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "github-access"}, Key: "token",
	}}}}
	all, _ := scanned(t, s, "git-repo-scanner-findings.json")
	wantLines(t, all, []string{
		"GitHub Repo | Git Repository | INFORMATIONAL | example-org/shop | public | false",
		"GitHub Repo | Git Repository | INFORMATIONAL | example-org/attic | public | true",
	}, "name", "category", "severity", "full_name", "visibility", "archived")
}
