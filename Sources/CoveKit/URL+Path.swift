internal import CoveCore
internal import Foundation

extension URL {
    /// True where both name the same place, byte by byte: a name whose accents are written otherwise is another name, though
    /// Swift takes the two strings for equal.
    func hasPath(of other: URL) -> Bool { LocalPath.isSame(path, other.path) }
}
