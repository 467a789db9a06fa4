internal import CoveCore
public import Foundation

/// Files of an access that other programs have open for writing.
///
/// The kernel asks nobody before it takes what such a program writes: an access can wait for those programs, refuse to begin,
/// or be told of them. Outside of Cove's mounts nothing is known of them.
extension FileCoordinator {
    /// What an access does about programs that have one of its files open for writing.
    public enum OpenFilePolicy: String, Sendable {
        /// It waits until they close the file or write nothing for a while.
        case wait
        /// It begins at once; `openFiles` tells of them.
        case ignore
        /// It fails with EBUSY.
        case fail
    }

    /// A file that another program has open for writing: what it writes from now on is not held back.
    public struct OpenFile: Sendable, Hashable {
        /// Where the file is.
        public var url: URL
        /// The process; 0 where it can't be seen.
        public var process: Int32
        /// The name of its program.
        public var program: String

        init(_ file: CoordinationInterface.OpenFile, in place: Location) {
            url = place.sibling(at: RemotePath(unchecked: Array(file.path.utf8))).url
            (process, program) = (file.process, file.program)
        }
    }
}
