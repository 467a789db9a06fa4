public import CoveCore

/// Links to files, as Nextcloud's sharing makes them: each of a copy, which goes in time and takes its link with it.
extension WebDAVProvider {
    private static let folder = RemotePath([PublishedName.folder])

    /// Copies a version into a folder of its own, and has the server share that with everybody who knows the link.
    public func publish(
        _ item: RemoteReference,
        version: ContentVersion,
        until: Timestamp
    ) async throws(ProviderError) -> Publication {
        guard let home, try server().makesShares, let name = item.path.name else {
            throw .unsupported("it gives no links to files")
        }
        let place = Self.folder.appending(PublishedName(until: until, owner: owner).fileName)
        for folder in [Self.folder, place] {
            let made = try await send("MKCOL", folder, isDirectory: true)
            guard made.head.isSuccess || made.status == 405 else { throw refusal(made, "\(folder)") }
        }
        do throws(ProviderError) {
            _ = try await copy(item, version: version, to: RemoteReference(id: nil, path: place), name: name)
            let url = try await share(place.appending(name), home, until)
            publications.begin(after: until - System.now()) { [weak self] in await self?.sweepPublished() }
            return Publication(url: url + "/download", expires: until)
        } catch {
            _ = try? await send("DELETE", place, isDirectory: true)
            throw error
        }
    }

    /// Makes the share; its address.
    private func share(
        _ path: RemotePath,
        _ home: DAVHome,
        _ until: Timestamp
    ) async throws(ProviderError) -> String {
        guard let url = home.shares else { throw .unsupported("it gives no links to files") }
        let place =
            "/"
            + (home.inside.map { PercentEncoding.encode($0) } + [
                PercentEncoding.encode(path.bytes, keepingSlashes: true)
            ]).joined(separator: "/")
        // The server ends shares with whole days of its own time zone: the device's own end comes before that.
        let day = HTTPDate.day(until + .seconds(38 * 3600))
        var request = HTTPRequest("POST", url + "?format=json")
        request.headers = [
            ("OCS-APIRequest", "true"), ("Accept", "application/json"),
            ("Content-Type", "application/x-www-form-urlencoded"),
        ]
        request.body = .bytes(Array("path=\(place)&shareType=3&permissions=1&expireDate=\(day)".utf8))
        let response = try await client.send(request)
        let answer = (try? JSONValue(parsing: response.body))?["ocs"]
        if response.head.isSuccess, let address = answer?["data"]?["url"]?.text, Self.isAddress(address) {
            return address
        }
        guard let why = answer?["meta"]?["message"]?.text, !why.isEmpty else {
            throw response.head.isSuccess
                ? .failed("the server tells no link", nil) : refusal(response, "sharing \(path)")
        }
        throw .notPermitted(String(why.prefix(200).map { $0.unicodeScalars.contains { $0.value < 0x20 } ? " " : $0 }))
    }

    private static func isAddress(_ text: String) -> Bool {
        let isWeb = text.hasPrefix("https://") || text.hasPrefix("http://")
        return isWeb && text.utf8.count <= 2000 && text.utf8.allSatisfy { (0x21...0x7E).contains($0) }
            && !text.contains("?") && !text.contains("#")
    }

    /// Deletes copies whose time is over; when the next one's is, nil where this device has none.
    func sweepPublished() async -> Timestamp? {
        let now = System.now()
        let names: [PublishedName]
        do throws(ProviderError) {
            names = try await pick(in: Self.folder) { bytes, _ in PublishedName(bytes) }
        } catch .noSuchItem {
            return nil
        } catch {
            log("what was published is looked through another time: \(error)")
            return now + .seconds(600)
        }
        return await PublishedName.sweep(names, of: owner, at: now, log: log) { name throws(ProviderError) in
            let path = Self.folder.appending(name.fileName)
            let response = try await self.send("DELETE", path, isDirectory: true)
            guard response.isGone else { throw self.refusal(response, "\(path)") }
        }
    }
}
