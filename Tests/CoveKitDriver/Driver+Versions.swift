import CoveKit
import Foundation

/// What else programs do with versions.
extension Driver {
    func use(_ verb: String, _ words: [String]) async throws {
        let url = URL(fileURLWithPath: words[0])
        switch verb {
        case "take": try await take(words)
        case "distant":
            for version in try await FileVersion.nonlocalVersionsOfItem(at: url) {
                let text = String(decoding: try await version.contents(), as: UTF8.self)
                say("distant \(version.url == nil ? "without" : "with") a place: \(text)")
            }
            say("no more")
        default:
            let current = try await FileVersion.currentVersionOfItem(at: url)
            for version in try await [current].compactMap({ $0 }) + FileVersion.otherVersionsOfItem(at: url) {
                let text = String(decoding: try await version.contents(), as: UTF8.self)
                let picture = await version.thumbnail()
                let isSaidToBe = await version.hasThumbnail
                say("\(text) \(picture.map { "\($0.count)" } ?? "none") \(isSaidToBe)")
            }
        }
    }

    /// `take PATH TEXT copying|moving [PATH]`: gives the document, or another file, the contents of its version that has a text.
    private func take(_ words: [String]) async throws {
        let url = URL(fileURLWithPath: words[0])
        let target = words.count > 3 ? URL(fileURLWithPath: words[3]) : nil
        let options: FileVersion.ReplacingOptions = words[2] == "moving" ? .byMoving : []
        let text = try await FileCoordinator().coordinate(writingItemAt: target ?? url) { place in
            for version in try await FileVersion.otherVersionsOfItem(at: url)
            where try await version.contents() == Data(words[1].utf8) {
                try await version.replaceItem(at: target, options: options)
                return try String(contentsOf: place, encoding: .utf8)
            }
            return "no such version"
        }
        say("taken \(text)")
    }
}
