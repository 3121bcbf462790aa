package runner

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// resolverFiles are what a command with the network needs to find hosts.
var resolverFiles = []string{"/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"}

// libraries are where bwrap finds its own.
var libraries = []string{"/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc/ld.so.cache"}

// Visible returns the files and directories of the machine that the runner needs.
func (s *Settings) Visible() []string {
	paths := slices.Concat(libraries, s.Paths, []string{s.Bubblewrap})
	for _, entry := range s.Programs {
		_, path := Scoped(entry)
		paths = append(paths, path)
	}
	if s.Network {
		paths = append(paths, resolverFiles...)
	}
	return paths
}

// Resolved returns the settings with the files that programs of the list are now. The sandbox of the runner may lack
// links that lead to them.
func (s *Settings) Resolved() Settings {
	out := *s
	out.Programs = nil
	for _, entry := range s.Programs {
		scope, path := Scoped(entry)
		if scope != "" {
			scope += "="
		}
		out.Programs = append(out.Programs, scope+Resolve(path))
	}
	return out
}

// Resolve returns the file that a path leads to, or the path itself if there is none.
func Resolve(path string) string {
	if file, err := filepath.EvalSymlinks(path); err == nil {
		return file
	}
	return path
}

// Confine returns the arguments of the bwrap in which the runner itself runs. A command that breaks out of its own
// sandbox finds neither files of the node nor other processes of its user there.
func (s *Settings) Confine() []string {
	a := []string{"--unshare-all", "--unshare-user", "--cap-drop", "ALL", "--die-with-parent"}
	if s.Network {
		a = append(a, "--share-net")
	}
	if s.Socket != "" {
		// Whoever may use the socket reads every file anyway, and the engine may create another socket at any time.
		return append(a, "--bind", "/", "/", "--proc", "/proc", "--dev", "/dev")
	}
	a = append(a, "--proc", "/proc", "--dev", "/dev", "--dir", "/tmp")
	a = append(a, binds(s.Visible())...)
	return append(a, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/")
}

// binds returns the arguments that make paths visible. What is below a directory of the list stays as it is on the
// machine, including links. A link in the root directory stays a link, so that /bin/x is /usr/bin/x.
func binds(paths []string) (args []string) {
	var bound []string
	bind := func(path string) {
		if !below(bound, path) {
			bound = append(bound, path)
			args = append(args, "--ro-bind-try", path, path)
		}
	}
	for _, path := range paths {
		path = filepath.Clean(path)
		file, err := filepath.EvalSymlinks(path)
		if err != nil {
			continue // it is not on this machine
		}
		bind(file)
		if to, err := os.Readlink(path); err == nil && filepath.Dir(path) == "/" && !slices.Contains(bound, path) {
			bound = append(bound, path)
			args = append(args, "--symlink", to, path)
		}
		bind(path)
	}
	return args
}

// below reports whether a path is in a list, or below an entry of it.
func below(list []string, path string) bool {
	return slices.ContainsFunc(list, func(entry string) bool {
		return path == entry || strings.HasPrefix(path, strings.TrimSuffix(entry, "/")+"/")
	})
}
