import CoveKit
import Foundation
import Synchronization

/// What programs do about the cloud by the file manager.
extension Driver {
    func handle(_ verb: String, _ words: [String]) async throws {
        let urls = words.map { URL(fileURLWithPath: $0) }
        switch verb {
        case "identity": say("identity \(try archived(FileManager.default.ubiquityIdentityToken))")
        case "identities": try await follow(Int(words[0]) ?? 0)
        case "enter", "leave":
            try await FileManager.default.setUbiquitous(verb == "enter", itemAt: urls[0], destinationURL: urls[1])
            say("is ubiquitous: \(FileManager.default.isUbiquitousItem(at: urls[1]))")
        case "container":
            say(
                "container \(await FileManager.default.url(forUbiquityContainerIdentifier: words.first)?.path ?? "none")"
            )
        case "bookmark":
            let (document, _) = try await Bookmark.make(of: urls[0]).resolve()
            let place = await document.startAccessing()
            say("document \(try place.map { try String(contentsOf: $0, encoding: .utf8) } ?? "none")")
            await document.stopAccessing()
        default:
            let link = try await FileManager.default.url(
                forPublishingUbiquitousItemAt: urls[0],
                expirationDate: Date(timeIntervalSinceNow: 600)
            )
            say("link \(Int(link.expirationDate.timeIntervalSinceNow.rounded(.up)) <= 601) \(link.url.absoluteString)")
        }
    }

    /// `identities COUNT`: the next ones, of each of which there is a notification too.
    private func follow(_ count: Int) async throws {
        let posted = Mutex(0)
        let observer = NotificationCenter.default.addObserver(
            forName: .ubiquityIdentityDidChange,
            object: nil,
            queue: nil
        ) { _ in posted.withLock { $0 += 1 } }
        defer { NotificationCenter.default.removeObserver(observer) }
        let changes = FileManager.default.ubiquityIdentityChanges
        say("following")
        var left = count
        for await token in changes {
            say("> identity \(try archived(token))")
            left -= 1
            if left == 0 { break }
        }
        while posted.withLock({ $0 }) < count { await Task.yield() }
        say("all were posted")
    }

    /// What a program may keep of a token, which is the same when it is read again.
    private func archived(_ token: UbiquityIdentityToken?) throws -> String {
        guard let token else { return "nil" }
        let data = try JSONEncoder().encode([token])
        guard try JSONDecoder().decode([UbiquityIdentityToken].self, from: data) == [token],
            token == FileManager.default.ubiquityIdentityToken || FileManager.default.ubiquityIdentityToken == nil
        else { return "another one" }
        return String(decoding: data, as: UTF8.self)
    }
}
