// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// identity is who a container's program runs as.
type identity struct {
	uid, gid int
	groups   []int
	home     string
}

// identify decides the user of a container: the container's word over the
// pod's over the image's. Names are looked up in the image's files.
func identify(p *corev1.Pod, c *corev1.Container, imageUser, root string) (identity, error) {
	pod, own := p.Spec.SecurityContext, c.SecurityContext
	if pod == nil {
		pod = &corev1.PodSecurityContext{}
	}
	if own == nil {
		own = &corev1.SecurityContext{}
	}
	id, err := imageIdentity(imageUser, root)
	if err != nil {
		return id, err
	}
	uid := firstSet(own.RunAsUser, pod.RunAsUser)
	if uid != nil {
		id.uid = int(*uid)
	}
	if gid := firstSet(own.RunAsGroup, pod.RunAsGroup); gid != nil {
		id.gid = int(*gid)
	}
	nonRoot := pod.RunAsNonRoot
	if own.RunAsNonRoot != nil {
		nonRoot = own.RunAsNonRoot
	}
	if isTrue(nonRoot) && id.uid == 0 {
		where := fmt.Sprintf("(pod: \"%s_%s(%s)\", container: %s)", p.Name, p.Namespace, p.UID, c.Name)
		if uid != nil {
			return id, fmt.Errorf("container's runAsUser breaks non-root policy %s", where)
		}
		return id, fmt.Errorf("container has runAsNonRoot and image will run as root %s", where)
	}
	if isTrue(nonRoot) && uid == nil && !numeric(imageUser) {
		return id, fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root (pod: \"%s_%s(%s)\", container: %s)",
			imageUser, p.Name, p.Namespace, p.UID, c.Name)
	}
	id.groups = []int{id.gid}
	for _, g := range pod.SupplementalGroups {
		id.groups = append(id.groups, int(g))
	}
	if pod.FSGroup != nil {
		id.groups = append(id.groups, int(*pod.FSGroup))
	}
	id.home = homeOf(root, id.uid)
	return id, nil
}

func firstSet(values ...*int64) *int64 {
	for _, v := range values {
		if v != nil {
			return v
		}
	}
	return nil
}

func numeric(user string) bool {
	name, _, _ := strings.Cut(user, ":")
	_, err := strconv.Atoi(name)
	return err == nil
}

// imageIdentity reads an image's user: "", "uid", "uid:gid", "name" or "name:group".
func imageIdentity(user, root string) (identity, error) {
	name, group, _ := strings.Cut(user, ":")
	var id identity
	if name == "" {
		return id, nil
	}
	uid, err := strconv.Atoi(name)
	switch fields := lookup(root, "etc/passwd", func(f []string) bool { return f[0] == name || (err == nil && f[2] == name) }); {
	case len(fields) > 3:
		id.uid, _ = strconv.Atoi(fields[2]) // a broken line means user 0, as with any runtime
		id.gid, _ = strconv.Atoi(fields[3])
	case err == nil:
		id.uid = uid
	default:
		return id, fmt.Errorf("unable to find user %s: no matching entries in passwd file", name)
	}
	if group == "" {
		return id, nil
	}
	if id.gid, err = strconv.Atoi(group); err == nil {
		return id, nil
	}
	fields := lookup(root, "etc/group", func(f []string) bool { return f[0] == group })
	if fields == nil {
		return id, fmt.Errorf("unable to find group %s: no matching entries in group file", group)
	}
	id.gid, err = strconv.Atoi(fields[2])
	return id, err
}

// homeOf is the user's home directory by the image's passwd file, or "/".
func homeOf(root string, uid int) string {
	f := lookup(root, "etc/passwd", func(f []string) bool { return f[2] == strconv.Itoa(uid) })
	if len(f) > 5 && f[5] != "" {
		return f[5]
	}
	return "/"
}

// lookup finds the first line of a passwd or group file that matches. An image
// without the file, or with a link that leads out of it, has no entries.
func lookup(root, file string, match func([]string) bool) []string {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil
	}
	defer r.Close()
	f, err := r.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	s := bufio.NewScanner(io.LimitReader(f, 1<<20))
	for s.Scan() {
		if fields := strings.Split(s.Text(), ":"); len(fields) > 2 && match(fields) {
			return fields
		}
	}
	return nil
}

// capabilityNumbers are the kernel's, by the names that Kubernetes uses.
var capabilityNumbers = map[string]int{
	"CHOWN": 0, "DAC_OVERRIDE": 1, "DAC_READ_SEARCH": 2, "FOWNER": 3, "FSETID": 4, "KILL": 5, "SETGID": 6, "SETUID": 7,
	"SETPCAP": 8, "LINUX_IMMUTABLE": 9, "NET_BIND_SERVICE": 10, "NET_BROADCAST": 11, "NET_ADMIN": 12, "NET_RAW": 13,
	"IPC_LOCK": 14, "IPC_OWNER": 15, "SYS_MODULE": 16, "SYS_RAWIO": 17, "SYS_CHROOT": 18, "SYS_PTRACE": 19, "SYS_PACCT": 20,
	"SYS_ADMIN": 21, "SYS_BOOT": 22, "SYS_NICE": 23, "SYS_RESOURCE": 24, "SYS_TIME": 25, "SYS_TTY_CONFIG": 26, "MKNOD": 27,
	"LEASE": 28, "AUDIT_WRITE": 29, "AUDIT_CONTROL": 30, "SETFCAP": 31, "MAC_OVERRIDE": 32, "MAC_ADMIN": 33, "SYSLOG": 34,
	"WAKE_ALARM": 35, "BLOCK_SUSPEND": 36, "AUDIT_READ": 37, "PERFMON": 38, "BPF": 39, "CHECKPOINT_RESTORE": 40,
}

// defaultCapabilities are what container runtimes leave to a container.
var defaultCapabilities = []string{
	"CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP",
	"NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE",
}

// capabilities decides what a container may hold.
func capabilities(sc *corev1.SecurityContext) ([]int, error) {
	keep := slices.Clone(defaultCapabilities)
	var add, drop []corev1.Capability
	if sc != nil && sc.Capabilities != nil {
		add, drop = sc.Capabilities.Add, sc.Capabilities.Drop
	}
	clean := func(c corev1.Capability) string { return strings.TrimPrefix(strings.ToUpper(string(c)), "CAP_") }
	for _, d := range drop {
		if clean(d) == "ALL" {
			keep = nil
		}
		keep = slices.DeleteFunc(keep, func(k string) bool { return k == clean(d) })
	}
	out := []int{}
	for _, a := range add {
		if clean(a) == "ALL" {
			for _, n := range capabilityNumbers {
				out = append(out, n)
			}
			slices.Sort(out)
			return out, nil
		}
		keep = append(keep, clean(a))
	}
	for _, k := range keep {
		n, known := capabilityNumbers[k]
		if !known {
			return nil, fmt.Errorf("unknown capability to add: CAP_%s", k)
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// ownVolume hands a volume to the pod's fsGroup, as a kubelet does.
func ownVolume(dir string, group *int64, readOnly bool) error {
	if group == nil || os.Geteuid() != 0 {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return os.Lchown(path, -1, int(*group))
		}
		bits := fs.FileMode(0o660)
		if readOnly {
			bits = 0o440
		}
		if d.IsDir() {
			bits |= 0o110 | fs.ModeSetgid
		}
		if err := os.Lchown(path, -1, int(*group)); err != nil {
			return err
		}
		return os.Chmod(path, st.Mode()|bits)
	})
}
