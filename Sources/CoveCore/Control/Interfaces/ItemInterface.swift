/// `io.cove.Item`: single items.
public enum ItemInterface {
    /// The interface's name.
    public static let name = "io.cove.Item"

    /// The interface's definition.
    public static let definition = """
        # Items of one Cove account. Each method takes path, or path_base64 for a path that is not UTF-8, relative to the
        # mount point; the empty path is its root.
        interface io.cove.Item

        # kind: file, directory, symlink, fifo, socket or device
        # state: dataless, partial, materialized or local
        # policy: lazily, lazily-and-evict or eagerly, of its own or of a directory above it
        type ItemStatus (
          path: string,
          path_base64: ?string,
          name: string,
          kind: string,
          state: string,
          isDirty: bool,
          isUploading: bool,
          isDownloading: bool,
          isPinned: bool,
          isExcluded: ?bool,
          policy: ?string,
          hasConflict: bool,
          size: int,
          localBytes: int,
          percent: float,
          modificationTime: float,
          permissions: int,
          user: int,
          group: int,
          itemID: int,
          documentID: string,
          contentVersion: ?string,
          remoteID: ?string,
          error: ?string
        )

        type Transfer (
          path: string,
          direction: (download, upload),
          doneBytes: int,
          totalBytes: int,
          bytesPerSecond: float
        )

        # An earlier content of a file, or, with isConflict, another side of a conflict, which is the file conflictPath.
        # modificationTime is when it was written, replacedTime when it was replaced or the conflict was found. host is the
        # device that saved it, contentVersion what the source calls it, where that is known. isLocal: its bytes are here;
        # else the source keeps it, and its id begins with @.
        type Version (
          id: string,
          documentID: string,
          size: int,
          modificationTime: float,
          replacedTime: float,
          host: ?string,
          contentVersion: ?string,
          isLocal: bool,
          isConflict: bool,
          conflictPath: ?string
        )

        # Several items at once; failures says, by path, why others could not be told.
        method Status(paths: []string) -> (items: []ItemStatus, failures: [string]string)

        # Everything known of one item.
        method Info(path: ?string, path_base64: ?string) -> (item: ItemStatus)

        # A directory's items; one that was never listed is listed now. Long lists need more.
        method List(path: ?string, path_base64: ?string) -> (items: []ItemStatus)

        # Starts to fetch an item, or all below a directory. With wait it replies once all is there; with more it sends
        # the progress until then.
        method Download(path: ?string, path_base64: ?string, wait: ?bool) -> (progress: ?Transfer)

        # Drops local bytes that the cloud has too, of an item or all below a directory.
        method Evict(path: ?string, path_base64: ?string) -> (freedBytes: int)

        # Keeps an item, or all below a directory, on this disk; also what comes there later.
        method Pin(path: ?string, path_base64: ?string) -> ()

        # Ends Pin.
        method Unpin(path: ?string, path_base64: ?string) -> ()

        # Keeps an item, with all that is in a directory, out of the cloud: it stays on this device, and so does whatever gets its
        # name. It is fetched first; what the cloud has of it is deleted there. Fails with EAGAIN where its bytes don't stay here.
        method Exclude(path: ?string, path_base64: ?string) -> ()

        # Ends Exclude: it is sent.
        method Include(path: ?string, path_base64: ?string) -> ()

        # Says when an item's bytes come here and may leave: inherited, lazily, lazily-and-evict or eagerly.
        method SetPolicy(path: ?string, path_base64: ?string, policy: string) -> ()

        # What the source can do with items besides keeping them. kinds: of which items, all where it is missing.
        type Action (id: string, name: string, kinds: ?[]string, takesSeveral: bool)

        # The source's actions for an item.
        method Actions(path: ?string, path_base64: ?string) -> (actions: []Action)

        # Has the source carry out one of its actions on items that it has as they are here; message is for people.
        method Perform(action: string, paths: []string) -> (message: ?string)

        # The picture of a file: a PNG file of at most 1024 by 1024 pixels, which stays until the file changes. It comes from
        # the source, or is made of the bytes that are here; none are fetched for it. Missing where there is none.
        method Thumbnail(path: ?string, path_base64: ?string) -> (file: ?string)

        # Gives a file a picture of what it holds now, which other devices get too where the source keeps some. picture is the
        # name of an image file in the folder of this socket, .thumbnail- and 32 hexadecimal digits, which is removed. Without
        # it the file has no picture.
        method SetThumbnail(path: ?string, path_base64: ?string, picture: ?string) -> ()

        # Makes a link by which anybody can read what a file holds now, whatever becomes of it, for so many seconds, or a week.
        # expires is when it ends, version what the source calls the content. Fails with ENOTSUP for what is no file and
        # where the source gives no links, with EAGAIN for what waits to be sent, with EHOSTUNREACH without the source.
        method Publish(path: ?string, path_base64: ?string, seconds: ?int) -> (url: string, expires: float, version: string)

        # Takes the bytes of a file outside of the account, by its absolute path, for those of an item that is not here, if
        # they are the same: the source says so by a checksum, or, with trustDates, size and date are equal. The file is only
        # read. With isTrial nothing is taken. outcome: adopted, present (the bytes are here), differs, unverified (nothing
        # tells), changed (while it was read), busy, no-room (here, by the cache's limit).
        method Adopt(path: ?string, path_base64: ?string, file: string, file_base64: ?string, trustDates: ?bool, isTrial: ?bool) -> (outcome: string)

        # A file's versions, newest first, and then the other sides of its conflicts. Those that the source keeps are
        # among them while it can be reached. Long lists need more.
        method Versions(path: ?string, path_base64: ?string) -> (versions: []Version)

        # The bytes of a version, part by part, in base64; the last reply has none. Needs more.
        method ReadVersion(path: ?string, path_base64: ?string, version: string) -> (data: string)

        # Gives a file the content of one of its versions, as a program that saves it would. What it replaces becomes a
        # version.
        method RestoreVersion(path: ?string, path_base64: ?string, version: string) -> ()

        # Says that a file's conflicts, or the one with a version, are dealt with; all files stay.
        method ResolveConflicts(path: ?string, path_base64: ?string, version: ?string) -> (count: int)

        # Deletes a version, or all that this device keeps of a file.
        method RemoveVersions(path: ?string, path_base64: ?string, version: ?string) -> (count: int)

        # What happened; what to do. errno is set where a system call would have failed so.
        error Failed (message: string, errno: ?int, path: ?string, path_base64: ?string)

        """
}
