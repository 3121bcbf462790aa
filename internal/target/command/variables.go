package command

import (
	"slices"
	"strings"
)

// steering are the names of variables with which shells, the dynamic linker, the C library, interpreters and common
// tools load code or choose programs. With them, a job could make a program of the list run anything. A name that ends
// in * stands for all names that begin so.
var steering = []string{
	"PATH", "IFS", "ENV", "SHELLOPTS", "BASH*", "PS4", "PROMPT_COMMAND", "CDPATH", "GLOBIGNORE", "FPATH", "ZDOTDIR",
	"LD_*", "GCONV_PATH", "GETCONF_DIR", "GLIBC_TUNABLES", "LOCPATH", "NLSPATH", "OPENSSL_*",
	"PERL*", "PYTHON*", "RUBY*", "GEM_*", "BUNDLE_*", "NODE_*", "LUA_*", "PHPRC", "PHP_INI_SCAN_DIR", "TCLLIBPATH",
	"AWKPATH", "AWKLIBPATH", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH", "DOTNET_*", "CORECLR_*",
	"R_*", "GUILE_*", "ERL_*", "GIT_*", "MAKEFLAGS", "LESSOPEN", "LESSCLOSE", "PAGER", "MANPAGER", "SYSTEMD_PAGER", "EDITOR",
	"VISUAL", "BROWSER", "VIMINIT", "EXINIT", "TAR_OPTIONS", "ZIPOPT", "PSQLRC", "PSQL_*", "RSYNC_RSH", "RSYNC_CONNECT_PROG",
	"SSH_ASKPASS*", "SUDO_ASKPASS", "WGETRC", "SYSTEM_WGETRC", "CURL_HOME",
}

// harmless are names among steering that many jobs set.
var harmless = []string{
	"NODE_ENV", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONIOENCODING", "PYTHONUTF8", "PYTHONHASHSEED",
}

// steers reports whether a variable of that name can change which code a program runs.
func steers(name string) bool {
	return !slices.Contains(harmless, name) && slices.ContainsFunc(steering, func(entry string) bool {
		start, all := strings.CutSuffix(entry, "*")
		return name == entry || all && strings.HasPrefix(name, start)
	})
}

// variables refuses variables that steer. Containers may have them: their jobs may replace the program of an image
// anyway.
func (r *reader) variables(c *config) {
	if c.image != "" {
		return
	}
	for name := range c.env {
		if steers(name) {
			r.Add("env."+name, "it can make a program run other programs, so jobs may not set it",
				"remove it, and set it in a script on the list that starts the program")
		}
	}
}
