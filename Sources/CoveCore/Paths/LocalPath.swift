internal import Glibc

/// Absolute paths of this machine, by their letters alone.
public enum LocalPath {
    /// An absolute path without `.`, `..` and doubled slashes; symbolic links stay as they are.
    public static func absolute(_ path: String) -> String {
        var names: [Substring] = []
        let whole = path.hasPrefix("/") ? path : workingDirectory + "/" + path
        for name in whole.split(separator: "/") where name != "." {
            if name == ".." { _ = names.popLast() } else { names.append(name) }
        }
        return "/" + names.joined(separator: "/")
    }

    /// A path without symbolic links; as it is where nothing is there.
    public static func resolved(_ path: String) -> String {
        guard let found = realpath(path, nil) else { return path }
        defer { free(found) }
        return String(cString: found)
    }

    /// The directory of an absolute path; nil for one without a slash.
    public static func parent(of path: String) -> String? { path.lastIndex(of: "/").map { String(path[..<$0]) } }

    /// True for the same bytes: file systems know nothing of accents that may be written in two ways, as Swift's strings do.
    public static func isSame(_ one: String?, _ two: String?) -> Bool {
        guard let one, let two else { return one == nil && two == nil }
        return one.utf8.elementsEqual(two.utf8)
    }

    /// True when a path is a directory or below it.
    public static func isInside(_ path: String, _ directory: String) -> Bool {
        directory == "/" || isSame(path, directory) || path.utf8.starts(with: (directory + "/").utf8)
    }

    /// The directory that this process is in; empty where that is gone.
    public static var workingDirectory: String {
        guard let directory = getcwd(nil, 0) else { return "" }
        defer { free(directory) }
        return String(cString: directory)
    }
}
