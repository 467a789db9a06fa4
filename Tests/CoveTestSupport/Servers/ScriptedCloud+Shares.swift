import CoveCore
import Foundation
import Synchronization

/// Links to files, by the public protocol of Nextcloud's sharing.
extension ScriptedCloud {
    /// From now on it says that it is a Nextcloud, and makes links; gives what it was asked for, path and last day.
    public func sharesFiles(refusing why: String? = nil) -> @Sendable () -> [(path: String, day: String)] {
        let shares = ScriptedShares()
        answer { [weak self] request in
            guard let self else { return nil }
            if request.target == "/status.php" {
                return ScriptedServer.answer(200, ["Content-Type: application/json"], "{\"productname\":\"Nextcloud\"}")
            }
            if request.target.hasPrefix("/ocs/v2.php/apps/files_sharing/api/v1/shares") {
                return share(request, shares, why)
            }
            guard request.target.hasPrefix("/s/") else { return nil }
            let names = request.target.split(separator: "/")
            let path = shares.made.withLock { made in
                names.count == 3 && names[2] == "download" ? made.first { $0.token == names[1] }?.path : nil
            }
            guard let bytes = path.flatMap({ self.bytes($0) }) else { return ScriptedServer.answer(404) }
            let head = "HTTP/1.1 200 OK\r\nContent-Length: \(bytes.count)\r\nConnection: close\r\n\r\n"
            return .bytes(Array(head.utf8) + bytes)
        }
        return { shares.made.withLock { $0.map { ($0.path, $0.day) } } }
    }

    private func share(
        _ request: ScriptedServer.Request,
        _ shares: ScriptedShares,
        _ why: String?
    ) -> ScriptedServer.Answer {
        func told(_ status: Int, _ message: String, _ data: String) -> ScriptedServer.Answer {
            let meta =
                "{\"status\":\"\(status == 200 ? "ok" : "failure")\",\"statuscode\":\(status),"
                + "\"message\":\"\(message)\"}"
            let body = "{\"ocs\":{\"meta\":\(meta),\"data\":\(data)}}"
            return ScriptedServer.answer(status, ["Content-Type: application/json"], body)
        }
        guard request.method == "POST", request.value("ocs-apirequest") == "true" else { return told(403, "no", "[]") }
        if let why { return told(403, why, "[]") }
        var fields: [String: String] = [:]
        for part in String(decoding: request.body, as: UTF8.self).split(separator: "&") {
            let words = part.split(separator: "=", maxSplits: 1).map(String.init)
            if words.count == 2 { fields[words[0]] = words[1].removingPercentEncoding }
        }
        guard fields["shareType"] == "3", fields["permissions"] == "1", let day = fields["expireDate"],
            let path = fields["path"]?.dropFirst(), bytes(String(path)) != nil
        else { return told(404, "Wrong path, file/folder doesn't exist", "[]") }
        let token = "\(DocumentID.random())"
        shares.made.withLock { $0.append((token, String(path), day)) }
        return told(200, "OK", "{\"id\":\"1\",\"url\":\"http:\\/\\/127.0.0.1:\(server.port)\\/s\\/\(token)\"}")
    }
}

private final class ScriptedShares: Sendable {
    let made = Mutex<[(token: String, path: String, day: String)]>([])
}
