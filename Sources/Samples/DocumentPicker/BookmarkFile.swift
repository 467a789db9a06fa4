import CoveKit
import Foundation

/// Where the app keeps the bookmark of the picked document: in a folder of its own on this machine.
struct BookmarkFile {
    private let url: URL

    /// Makes the folder.
    init() throws {
        let variables = ProcessInfo.processInfo.environment
        let home = variables["HOME"] ?? FileManager.default.homeDirectoryForCurrentUser.path
        let state = URL(fileURLWithPath: variables["XDG_STATE_HOME"] ?? home + "/.local/state")
        let folder = state.appending(path: "DocumentPicker")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        url = folder.appending(path: "bookmark")
    }

    /// The bookmark that was kept last; nil where there is none.
    var kept: Bookmark? { (try? Data(contentsOf: url)).map { Bookmark(data: $0) } }

    /// Keeps one in the place of the former.
    func keep(_ bookmark: Bookmark) throws { try bookmark.data.write(to: url, options: .atomic) }
}
